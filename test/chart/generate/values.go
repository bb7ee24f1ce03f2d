// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	readme = "charts/taintkeeper/README.md"

	// These lines enclose the table of values.
	begin = "<!-- values.yaml: begin -->\n"
	end   = "<!-- values.yaml: end -->\n"
)

// withValues returns the chart's README with the table of values as values.yaml documents them.
func withValues(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, readme))
	if err != nil {
		return "", err
	}
	values, err := os.ReadFile(filepath.Join(root, "charts", "taintkeeper", "values.yaml"))
	if err != nil {
		return "", err
	}
	table, err := table(values)
	if err != nil {
		return "", fmt.Errorf("values.yaml: %w", err)
	}
	return replaced(string(text), begin, end, table)
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

// table documents values: one row for each that has a comment.
func table(values []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", err
	}
	rows, err := rows("", document.Content[0])
	return "| value | default | meaning |\n| --- | --- | --- |\n" + strings.Join(rows, ""), err
}

// rows returns the rows of a mapping's values. Each value is documented, or is a mapping of documented values.
func rows(prefix string, mapping *yaml.Node) ([]string, error) {
	var all []string
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		if key.HeadComment != "" {
			row, err := row(name, key.HeadComment, value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, row)
			continue
		}
		if value.Kind != yaml.MappingNode || len(value.Content) == 0 {
			return nil, fmt.Errorf("%s: %w", name, errUndocumented)
		}
		inner, err := rows(name+".", value)
		if err != nil {
			return nil, err
		}
		all = append(all, inner...)
	}
	return all, nil
}

var errUndocumented = errors.New("it has no comment that says what it means")

func row(name, comment string, value *yaml.Node) (string, error) {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return "", err
	}
	standard, err := json.Marshal(decoded)
	if err != nil {
		return "", err
	}
	var lines []string
	for line := range strings.Lines(comment) {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, "#")))
	}
	return fmt.Sprintf("| `%s` | `%s` | %s |\n", name, standard, strings.Join(lines, " ")), nil
}
