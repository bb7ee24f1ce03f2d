// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cli/reference"
)

func TestThePagesAreCurrent(t *testing.T) {
	output, err := reference.Output("../../../../api/cli/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"docs/commands.md": reference.Commands(), "docs/output.md": output} {
		got, err := os.ReadFile("../../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not current: run make generate (-want +got):\n%s", name, diff)
		}
	}
}
