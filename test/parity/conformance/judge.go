// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/reporters"
)

// result is a run that was played and judged.
type result struct {
	run
	took time.Duration
	rows []row
	// complaints are unexpected results that belong to none of the requested specs.
	complaints []string
	// Each of these is empty when there is none.
	log   string // file with the output of the specs
	state string // folder of the cluster
}

// row is a spec in a run.
type row struct {
	spec
	outcome   outcome // its status is empty when the spec did not run
	complaint string  // empty when it ended as it had to
}

// judge compares what ran with what should have. It compares names, so that a spec that did not run is a complaint, and
// an extra one cannot replace it.
func judge(r run, ran []outcome) (rows []row, complaints []string) {
	for _, s := range specs {
		i := slices.IndexFunc(ran, func(o outcome) bool { return o.spec && o.name == s.name() })
		if i < 0 {
			rows = append(rows, row{spec: s, complaint: "it did not run"})
			continue
		}
		rows = append(rows, row{spec: s, outcome: ran[i], complaint: complain(r, s, ran[i])})
	}
	for _, o := range ran {
		switch {
		case !o.spec && o.status != statusPassed:
			complaints = append(complaints, fmt.Sprintf("%s of the suite %s: %s", o.name, o.status, o.message))
		case o.spec && !slices.ContainsFunc(specs, func(s spec) bool { return s.name() == o.name }):
			complaints = append(complaints, fmt.Sprintf("%s ran and is not in the list of specs: add it", o.name))
		}
	}
	return rows, complaints
}

func complain(r run, s spec, o outcome) string {
	passed := o.status == statusPassed
	switch {
	case s.passesIn(r) && passed:
		return ""
	case s.passesIn(r):
		return "it had to pass:\n" + o.message
	case passed:
		return "it had to fail, because nothing evicts in this run"
	case !strings.Contains(o.message, s.unevicted):
		return fmt.Sprintf("it failed, but not because no pod was evicted, in which case it would say %q:\n%s", s.unevicted, o.message)
	}
	return ""
}

// asExpected reports whether all results of a run were as expected.
func (r result) asExpected() bool {
	return len(r.complaints) == 0 && !slices.ContainsFunc(r.rows, func(one row) bool { return one.complaint != "" })
}

// report prints how each spec ended and what was not as expected, and where to read more.
func (r result) report(out io.Writer) {
	verdict := "as expected"
	if !r.asExpected() {
		verdict = "NOT as expected"
	}
	ofEviction, all := r.passed((*row).aboutEviction), r.passed(func(*row) bool { return true })
	fmt.Fprintf(out, "\n%s: %s. %s specs: %d passed, others: %d passed, in %s\n",
		r.name, verdict, subject, ofEviction, all-ofEviction, r.took.Round(time.Second))
	for _, one := range r.rows {
		fmt.Fprintf(out, "  %-8s %5.1f s  %s\n", one.outcome.status, one.outcome.took.Seconds(), one.name())
		if one.complaint != "" {
			fmt.Fprintln(out, indented(one.complaint))
		}
	}
	for _, complaint := range r.complaints {
		fmt.Fprintln(out, indented(complaint))
	}
	fmt.Fprintf(out, "  log: %s, cluster: %s\n", r.log, r.state)
}

func (r result) passed(counts func(*row) bool) (passed int) {
	for _, one := range r.rows {
		if counts(&one) && one.outcome.status == statusPassed {
			passed++
		}
	}
	return passed
}

// indented returns the first lines of a complaint; the log has all of what a spec said.
func indented(text string) string {
	const most = 12
	lines := strings.Split(text, "\n")
	return "  ! " + strings.Join(lines[:min(most, len(lines))], "\n      ")
}

const (
	statusPassed  = "passed"
	statusSkipped = "skipped"
	statusPending = "pending"
)

// filteredOut is the message of a spec that ginkgo left out; one that skipped itself adds a reason after it.
const filteredOut = "skipped"

// specType is how a report begins the names of specs, as opposed to those of the suite's own set-up and reports.
const specType = "[It] "

// outcome is how something that ran ended, according to a report.
type outcome struct {
	name    string // of the spec, or of a part of the suite in brackets
	spec    bool
	status  string // ginkgo's
	took    time.Duration
	message string // why it did not pass
}

// readReport reads what ran from a JUnit file, in which upstream reports all its thousands of specs.
func readReport(path string) ([]outcome, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the report of the specs: %w", err)
	}
	var report reporters.JUnitTestSuites
	if err := xml.Unmarshal(content, &report); err != nil {
		return nil, fmt.Errorf("read the report of the specs %s: %w", path, err)
	}
	var all []outcome
	for _, suite := range report.TestSuites {
		for _, c := range suite.TestCases {
			if leftOut(c) {
				continue
			}
			name, isSpec := strings.CutPrefix(c.Name, specType)
			all = append(all, outcome{
				name: name, spec: isSpec, status: c.Status,
				took:    time.Duration(c.Time * float64(time.Second)),
				message: message(c),
			})
		}
	}
	return all, nil
}

// leftOut tells what never began from what ran, also from a spec that ran until it skipped itself.
func leftOut(c reporters.JUnitTestCase) bool {
	return c.Status == statusPending || c.Status == statusSkipped && (c.Skipped == nil || c.Skipped.Message == filteredOut)
}

func message(c reporters.JUnitTestCase) string {
	switch {
	case c.Failure != nil:
		return strings.TrimSpace(c.Failure.Message + "\n" + c.Failure.Description)
	case c.Error != nil:
		return strings.TrimSpace(c.Error.Message + "\n" + c.Error.Description)
	case c.Skipped != nil:
		return c.Skipped.Message
	}
	return ""
}
