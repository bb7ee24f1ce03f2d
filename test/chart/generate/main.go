// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command generate writes the schema of extraFlags, which follows from the program, and the chart's annotations for
// Artifact Hub. `make generate` runs it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	if files[chartFile], err = withAnnotations(root); err != nil {
		return nil, fmt.Errorf("annotate the chart for Artifact Hub: %w", err)
	}
	if files[schema], err = withFlags(root); err != nil {
		return nil, fmt.Errorf("add the flags to %s: %w", schema, err)
	}
	return files, nil
}

// replaced returns a text with other content between a begin line and the next end line.
func replaced(text, begin, end, content string) (string, error) {
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("the line %s or the line %s is missing", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + content + end + after, nil
}
