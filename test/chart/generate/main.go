// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command generate writes the table of values in the chart's README, which follows from values.yaml, the schema of
// extraFlags, which follows from the program, and the chart's annotations for Artifact Hub. `make generate` runs it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "folder of the checkout")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintf(os.Stderr, "generate: %v\n", err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := generated(root)
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// generated returns the content of every file that is generated from the chart, by its path in the checkout.
func generated(root string) (map[string]string, error) {
	files := map[string]string{}
	var err error
	if files[readme], err = withValues(root); err != nil {
		return nil, fmt.Errorf("document the values of the chart: %w", err)
	}
	if files[chartFile], err = withAnnotations(root); err != nil {
		return nil, fmt.Errorf("annotate the chart for Artifact Hub: %w", err)
	}
	if files[schema], err = withFlags(root); err != nil {
		return nil, fmt.Errorf("add the flags to %s: %w", schema, err)
	}
	return files, nil
}
