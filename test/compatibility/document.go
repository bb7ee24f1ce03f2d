// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// measurement is what was measured with one version of Kubernetes.
type measurement struct {
	version string
	results []result
	date    time.Time
}

// failures returns an error that names the suites in which something failed, or nil.
func (m measurement) failures() error {
	var all []error
	for _, result := range m.results {
		if !result.right() {
			all = append(all, fmt.Errorf("test/%s on Kubernetes %s: %s", result.suite, m.version, result))
		}
	}
	return errors.Join(all...)
}

// table is what the document says about all versions: the row of each, with a cell per suite and the date of the last
// run.
type table struct {
	suites []string
	rows   map[string][]string
}

const (
	// notRun is the cell of a suite that was never run with a version.
	notRun    = "not run"
	separator = " | "
)

// header returns the two lines above the rows.
func (t table) header() string {
	names := "| Kubernetes | test/" + strings.Join(t.suites, " | test/") + " | date |\n"
	return names + strings.Repeat("| --- ", len(t.suites)+2) + "|\n"
}

// String returns the table, the newest version first.
func (t table) String() string {
	lines := []string{t.header()}
	versions := slices.Sorted(maps.Keys(t.rows))
	for _, version := range slices.Backward(versions) {
		lines = append(lines, fmt.Sprintf("| %s | %s |\n", version, strings.Join(t.rows[version], separator)))
	}
	return strings.Join(lines, "")
}

// read takes over the rows that a text begins with, and returns what follows them.
func (t table) read(text string) (rest string) {
	for strings.HasPrefix(text, "| ") {
		line, after, _ := strings.Cut(text, "\n")
		cells := strings.Split(strings.Trim(line, "| "), separator)
		t.rows[cells[0]] = cells[1:]
		text = after
	}
	return text
}

// add puts in what was measured. What was not measured this time stays.
func (t table) add(m measurement) {
	cells := t.rows[m.version]
	if len(cells) != len(t.suites)+1 {
		cells = slices.Repeat([]string{notRun}, len(t.suites)+1)
	}
	for _, result := range m.results {
		cells[slices.Index(t.suites, result.suite)] = result.String()
	}
	cells[len(t.suites)] = m.date.UTC().Format(time.DateOnly)
	t.rows[m.version] = cells
}

// record puts what was measured into the table of a file; without a file it does nothing.
func record(file string, m measurement) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the table: %w", err)
	}
	updated, err := with(string(text), allSuites, m)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(updated), 0o644); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// with returns a document whose table of these suites has what was measured. Everything else stays.
func with(text string, suites []string, m measurement) (string, error) {
	t := table{suites: suites, rows: map[string][]string{}}
	before, after, found := strings.Cut(text, t.header())
	if !found {
		return "", fmt.Errorf("it has no table that begins with %q", strings.Split(t.header(), "\n")[0])
	}
	rest := t.read(after)
	t.add(m)
	return before + t.String() + rest, nil
}
