// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	indent = "  "
	// messageLines is how much a complaint shows of what a spec said; the log has all of it.
	messageLines = 12
)

// report prints a row per spec and a column per run, a verdict on each run, and where to read more.
func report(out io.Writer, results []result) {
	printTable(out, results)
	for _, r := range results {
		_, _ = fmt.Fprintf(out, "\n%s\n", r.verdict())
		for _, line := range r.complaintLines() {
			_, _ = fmt.Fprintln(out, indent+line)
		}
		for _, line := range r.files() {
			_, _ = fmt.Fprintln(out, indent+line)
		}
	}
}

func printTable(out io.Writer, results []result) {
	heading := []string{"SPEC"}
	for _, r := range results {
		heading = append(heading, strings.ToUpper(r.name))
	}
	table := [][]string{heading}
	container := ""
	for i, s := range specs {
		if s.container != container {
			container = s.container
			table = append(table, []string{untagged(container)})
		}
		line := []string{indent + untagged(s.text)}
		for _, r := range results {
			line = append(line, r.rows[i].cell())
		}
		table = append(table, line)
	}
	for _, line := range align(table) {
		_, _ = fmt.Fprintln(out, line)
	}
}

// align pads the cells of each column to the same width. The first line has all columns.
func align(table [][]string) []string {
	widths := make([]int, len(table[0]))
	for _, line := range table {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var lines []string
	for _, line := range table {
		var text strings.Builder
		for i, cell := range line {
			_, _ = fmt.Fprintf(&text, "%-*s  ", widths[i], cell)
		}
		lines = append(lines, strings.TrimRight(text.String(), " "))
	}
	return lines
}

func (r row) cell() string {
	cell := "did not run"
	if began(r) {
		cell = fmt.Sprintf("%s %.1f s", r.outcome.status, r.outcome.took.Seconds())
	}
	if r.complaint != "" {
		cell += " !"
	}
	return cell
}

func aboutEviction(r row) bool { return r.aboutEviction() }

func aboutElse(r row) bool { return !r.aboutEviction() }

func began(r row) bool { return r.outcome.status != "" }

func passed(r row) bool { return r.outcome.status == statusPassed }

// verdict says how many specs had to pass and how many did, for those about eviction and for the others.
func (r result) verdict() string {
	mustPass := func(one row) bool { return one.passesIn(r.run) }
	due := func(one row) bool { return !one.passesIn(r.run) && one.complaint == "" }
	text := fmt.Sprintf("%s: %d of %d %s specs and %d of %d others had to pass; %d and %d did",
		r.name,
		r.count(aboutEviction, mustPass), r.count(aboutEviction), subject,
		r.count(aboutElse, mustPass), r.count(aboutElse),
		r.count(aboutEviction, passed), r.count(aboutElse, passed))
	if n := r.count(due); n > 0 {
		text += fmt.Sprintf(", and %d failed because no pod was evicted", n)
	}
	return fmt.Sprintf("%s. %s, in %s.", text, r.judgment(), r.took.Round(time.Second))
}

func (r result) judgment() string {
	if r.asExpected() {
		return "As expected"
	}
	return "NOT as expected"
}

// complaintLines says what was not as expected, what went wrong with the run itself first.
func (r result) complaintLines() []string {
	var lines []string
	for _, complaint := range r.complaints {
		lines = append(lines, shorten(complaint)...)
	}
	if r.count(began) == 0 {
		return append(lines, "no spec ran")
	}
	for _, one := range r.rows {
		if one.complaint != "" {
			lines = append(lines, shorten(one.name()+" "+one.complaint)...)
		}
	}
	return lines
}

// shorten returns the first lines of a text, all but the first indented.
func shorten(text string) []string {
	lines := strings.Split(text, "\n")
	if len(lines) > messageLines {
		lines = append(lines[:messageLines], "...")
	}
	for i := range lines[1:] {
		lines[i+1] = indent + lines[i+1]
	}
	return lines
}

// files says where to read more.
func (r result) files() []string {
	var lines []string
	for _, file := range []struct{ what, path string }{{"JUnit", r.junit}, {"log", r.log}, {"cluster", r.state}} {
		if file.path != "" {
			lines = append(lines, file.what+": "+shortPath(file.path))
		}
	}
	return lines
}

// shortPath shows a path below the working directory relative to that.
func shortPath(path string) string {
	folder, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(short) {
		return short
	}
	return path
}
