// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cli/reference"
)

func TestThePageOfCommandsIsCurrent(t *testing.T) {
	want, err := reference.Markdown("../../../../api/cli/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/commands.md is not current: run make generate (-want +got):\n%s", diff)
	}
}
