// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command generate writes docs/commands.md. make generate runs it in the root of the repository.
package main

import (
	"fmt"
	"os"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd/reference"
)

func main() {
	//nolint:gosec // everybody may read documentation
	if err := os.WriteFile("docs/commands.md", reference.Commands(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
