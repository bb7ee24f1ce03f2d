// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command generate writes docs/commands.md. make generate runs it in the root of the repository.
package main

import (
	"fmt"
	"os"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cli/reference"
)

func main() {
	page, err := reference.Markdown("api/cli/v1alpha1")
	if err == nil {
		err = os.WriteFile("docs/commands.md", page, 0o644) //nolint:gosec // anyone may read documentation
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
