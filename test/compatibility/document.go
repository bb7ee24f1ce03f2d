// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// row is what was measured with one version of Kubernetes.
type row struct {
	version string
	results []result
	date    time.Time
}

// String returns the row of the table. It begins as [row.key] says.
func (r row) String() string {
	cells := make([]string, len(r.results))
	for i, result := range r.results {
		cells[i] = result.String()
	}
	return r.key() + strings.Join(cells, " | ") + " | " + r.date.UTC().Format(time.DateOnly) + " |"
}

func (r row) key() string { return "| " + r.version + " | " }

// failures returns an error that names the suites in which something failed, or nil.
func (r row) failures() error {
	var all []error
	for _, result := range r.results {
		if !result.right() {
			all = append(all, fmt.Errorf("test/%s on Kubernetes %s: %s", result.suite, r.version, result))
		}
	}
	return errors.Join(all...)
}

// header returns the two lines above the rows.
func header(suites []string) string {
	names := "| Kubernetes | test/" + strings.Join(suites, " | test/") + " | date |\n"
	return names + strings.Repeat("| --- ", len(suites)+2) + "|"
}

// record puts the row into the table of a file; without a file it does nothing.
func record(file string, r row) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the table: %w", err)
	}
	updated, err := withRow(string(text), r)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(updated), 0o644); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// withRow returns a text whose table has the row, in the place of an older one of that version. The rows stand by
// version, the newest first, and begin with `| v`. Everything else stays.
func withRow(text string, r row) (string, error) {
	suites := make([]string, len(r.results))
	for i, result := range r.results {
		suites[i] = result.suite
	}
	head := header(suites) + "\n"
	before, table, found := strings.Cut(text, head)
	if !found {
		return "", fmt.Errorf("it has no table that begins with %q", strings.Split(head, "\n")[0])
	}
	rows := []string{r.String() + "\n"}
	for strings.HasPrefix(table, "| v") {
		line, rest, _ := strings.Cut(table, "\n")
		if !strings.HasPrefix(line, r.key()) {
			rows = append(rows, line+"\n")
		}
		table = rest
	}
	slices.Sort(rows)
	slices.Reverse(rows)
	return before + head + strings.Join(rows, "") + table, nil
}
