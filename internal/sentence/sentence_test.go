// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package sentence

import (
	"slices"
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 974325939 * time.Nanosecond: "974ms", time.Minute + 400*time.Millisecond: "1m", 2*time.Hour + 999*time.Millisecond: "2h0m1s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s is written %s, want %s", d, got, want)
		}
	}
}

func TestAPartAgreesWithItsNumberOrWithTheOnlyOne(t *testing.T) {
	for want, part := range map[string]struct{ n, of int }{
		"0 of 1 pod leaves":  {0, 1},
		"1 of 1 pod leaves":  {1, 1},
		"0 of 2 pods leave":  {0, 2},
		"1 of 2 pods leaves": {1, 2},
		"2 of 3 pods leave":  {2, 3},
	} {
		if got := Part(part.n, part.of, "pod", "leaves", "leave"); got != want {
			t.Errorf("%d of %d: %q, want %q", part.n, part.of, got, want)
		}
	}
}

func TestWhatIsTrueOfSeveralIsSaidOnce(t *testing.T) {
	got := Grouped([]About{
		{"Node", "a", "it has no timeAdded."},
		{Says: "No budgets."},
		{"Node", "b", "it has no timeAdded."},
		{"Node", "c", "it is gone."},
		{"Pod", "a", "it has no timeAdded."},
		{Says: "No budgets."},
	})
	want := []string{
		"Node a (also b): it has no timeAdded.", "No budgets.", "Node c: it is gone.", "Pod a: it has no timeAdded.", "No budgets.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
