// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestTheLeaseSaysWhichVersionLeads(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                "v1.2.3",
		"(devel)":               "devel",
		"v1.2.3-4-gabc+dirty":   "v1.2.3-4-gabc_dirty",
		"a version with spaces": "",
		strings.Repeat("a", 64): "",
	} {
		if got := versionLabel(version)["app.kubernetes.io/version"]; got != want {
			t.Errorf("the label of version %q is %q, want %q", version, got, want)
		}
	}
}
