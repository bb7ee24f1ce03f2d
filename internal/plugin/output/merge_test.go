// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"slices"
	"strings"
	"testing"
)

func TestSentencesThatDifferOnlyInANameAreOne(t *testing.T) {
	got := Merged([]string{
		"Node a: its taint has no timeAdded.",
		"The files contain no PodDisruptionBudgets.",
		"Node b: its taint has no timeAdded.",
		"Node c: it is gone.",
		"Node d: its taint has no timeAdded.",
		"Node e: its taint has no timeAdded.",
		"pod shop/web-0 on node a: is due now",
		"pod shop/web-1 on node b: is due now",
		"Left out node f: it has the taint.",
		"The files contain no PodDisruptionBudgets.",
	})
	want := []string{
		"Node a (also b, d, e): its taint has no timeAdded.",
		"The files contain no PodDisruptionBudgets.",
		"Node c: it is gone.",
		"pod shop/web-0 on node a (also shop/web-1 on node b): is due now",
		"Left out node f: it has the taint.",
		"The files contain no PodDisruptionBudgets.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("merged:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
