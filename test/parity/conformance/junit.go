// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/reporters"
)

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

// readReport reads a JUnit file and drops from it what did not run: upstream reports all its thousands of specs.
func readReport(path string) (reporters.JUnitTestSuites, error) {
	var report reporters.JUnitTestSuites
	content, err := os.ReadFile(path)
	if err != nil {
		return report, fmt.Errorf("read the report of the specs: %w", err)
	}
	if err := xml.Unmarshal(content, &report); err != nil {
		return report, fmt.Errorf("read the report of the specs %s: %w", path, err)
	}
	return onlyRun(report), nil
}

func onlyRun(report reporters.JUnitTestSuites) reporters.JUnitTestSuites {
	kept := reporters.JUnitTestSuites{Errors: report.Errors, Failures: report.Failures, Time: report.Time}
	for _, suite := range report.TestSuites {
		var cases []reporters.JUnitTestCase
		for _, c := range suite.TestCases {
			if !leftOut(c) {
				cases = append(cases, c)
			}
		}
		dropped := len(suite.TestCases) - len(cases)
		suite.TestCases, suite.Tests = cases, len(cases)
		suite.Skipped = max(0, suite.Skipped+suite.Disabled-dropped)
		suite.Disabled = 0
		kept.Tests += suite.Tests
		kept.Disabled += suite.Skipped
		kept.TestSuites = append(kept.TestSuites, suite)
	}
	return kept
}

// leftOut tells what never began from what ran, also from a spec that ran until it skipped itself.
func leftOut(c reporters.JUnitTestCase) bool {
	return c.Status == statusPending || c.Status == statusSkipped && (c.Skipped == nil || c.Skipped.Message == filteredOut)
}

func writeReport(path string, report reporters.JUnitTestSuites) error {
	content, err := xml.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report of the specs: %w", err)
	}
	if err := os.WriteFile(path, append([]byte(xml.Header), content...), 0o644); err != nil {
		return fmt.Errorf("write the report of the specs: %w", err)
	}
	return nil
}

// outcomes lists what ran.
func outcomes(report reporters.JUnitTestSuites) []outcome {
	var all []outcome
	for _, suite := range report.TestSuites {
		for _, c := range suite.TestCases {
			name, isSpec := strings.CutPrefix(c.Name, specType)
			all = append(all, outcome{
				name: name, spec: isSpec, status: c.Status,
				took:    time.Duration(c.Time * float64(time.Second)),
				message: message(c),
			})
		}
	}
	return all
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
