// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd/reference"
)

func TestThePageIsCurrent(t *testing.T) {
	got, err := os.ReadFile("../../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(reference.Commands()), string(got)); diff != "" {
		t.Errorf("docs/commands.md is not current: run make generate (-want +got):\n%s", diff)
	}
}
