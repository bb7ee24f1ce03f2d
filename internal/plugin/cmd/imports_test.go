// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The controller's framework would make the plugin a third larger. What the plugin knows about the controller comes
// from packages without a client, such as internal/readiness and verdict.
func TestThePluginIsBuiltWithoutTheController(t *testing.T) {
	const plugin = "github.com/taintkeeper/taintkeeper/cmd/kubectl-taintkeeper"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", plugin).Output()
	if err != nil {
		t.Fatalf("list what %s is built of: %v", plugin, err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, plugin) {
		t.Fatalf("the list of %d packages does not hold %s itself", len(packages), plugin)
	}
	for _, name := range packages {
		if strings.HasPrefix(name, "sigs.k8s.io/controller-runtime/") {
			t.Errorf("the plugin is built with %s", name)
		}
	}
}
