// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline_test

import (
	"strings"
	"testing"

	"github.com/taintkeeper/taintkeeper/internal/commandline"
)

func TestTheLastValueOfAFlagCounts(t *testing.T) {
	for line, want := range map[string]bool{
		"":                          false,
		"--shadow":                  true,
		"--shadow=true":             true,
		"--shadow=false":            false,
		"--shadow=False":            false,
		"--shadow=0":                false,
		"--shadow=1":                true,
		"--shadow=":                 false,
		"--shadow --shadow=false":   false,
		"--shadow=false --shadow":   true,
		"--shadowy --not=--shadow":  false,
		"--shadow=false --dry-run":  false,
		"taintkeeper --shadow=true": true,
	} {
		if got := commandline.IsOn("--shadow", strings.Fields(line)); got != want {
			t.Errorf("%q: it is on: %t, want %t", line, got, want)
		}
	}
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
