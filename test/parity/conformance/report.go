// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
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
		fmt.Fprintf(out, "\n%s\n", r.verdict())
		for _, line := range r.complaintLines() {
			fmt.Fprintln(out, indent+line)
		}
		for what, path := range map[string]string{"log": r.log, "cluster": r.state} {
			if path != "" {
				fmt.Fprintln(out, indent+what+": "+shortPath(path))
			}
		}
	}
}

func printTable(out io.Writer, results []result) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprint(table, "SPEC")
	for _, r := range results {
		fmt.Fprint(table, "\t", strings.ToUpper(r.name))
	}
	fmt.Fprintln(table)
	container := ""
	for i, s := range specs {
		if s.container != container {
			container = s.container
			fmt.Fprintln(table, untagged(container)+strings.Repeat("\t", len(results)))
		}
		fmt.Fprint(table, indent+untagged(s.text))
		for _, r := range results {
			fmt.Fprint(table, "\t", r.rows[i].cell())
		}
		fmt.Fprintln(table)
	}
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
