// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command generate writes docs/commands.md. It is run from the root of the repository, by make generate.
package main

import (
	"fmt"
	"os"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cli/reference"
)

func main() {
	page, err := reference.Markdown("api/cli/v1alpha1")
	if err == nil {
		err = os.WriteFile("docs/commands.md", page, 0o644) //nolint:gosec // documentation is for everybody
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
