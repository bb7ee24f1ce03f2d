// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command generate writes docs/commands.md and docs/output.md. make generate runs it in the root of the repository.
package main

import (
	"fmt"
	"os"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cli/reference"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	output, err := reference.Output("api/cli/v1alpha1")
	if err != nil {
		return err
	}
	for name, page := range map[string][]byte{"docs/commands.md": reference.Commands(), "docs/output.md": output} {
		if err := os.WriteFile(name, page, 0o644); err != nil { //nolint:gosec // everybody may read documentation
			return err
		}
	}
	return nil
}
