// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline_test

import (
	"strings"
	"testing"

	"github.com/taintkeeper/taintkeeper/internal/commandline"
)

func TestTheLastValueOfAFlagCounts(t *testing.T) {
	for line, want := range map[string]string{
		"":                                  "other",
		"--controllers=":                    "other",
		"--controllers=a":                   "a",
		"--controllers=a --controllers=b":   "b",
		"--controllers a":                   "a",
		"--controllers=a --controllers b":   "b",
		"--controllers":                     "other",
		"--controllers-more=a --controller": "other",
	} {
		if got := commandline.ValueOf("--controllers", strings.Fields(line), "other"); got != want {
			t.Errorf("%q: the value is %q, want %q", line, got, want)
		}
	}
}
