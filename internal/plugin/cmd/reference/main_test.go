// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestThePageIsCurrent(t *testing.T) {
	got, err := os.ReadFile("../../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page()), string(got)); diff != "" {
		t.Errorf("docs/commands.md is not current: run make generate (-want +got):\n%s", diff)
	}
}
