// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package checkcmd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
)

// levels are SARIF's words for severities.
var levels = map[cliv1alpha1.Severity]string{
	cliv1alpha1.SeverityError:   "error",
	cliv1alpha1.SeverityWarning: "warning",
	cliv1alpha1.SeverityInfo:    "note",
}

// printSARIF prints a report as SARIF 2.1.0, which code scanning reads.
func printSARIF(o *output.Printer, report *cliv1alpha1.CheckReport) error {
	run := sarif.NewRunWithInformationURI("taintkeeper", "https://github.com/taintkeeper/taintkeeper")
	run.Tool.Driver.WithVersion(o.Env.Version)
	at := map[string]int{}
	for i, rule := range report.Rules {
		at[rule.ID] = i
		run.AddRule(rule.ID).
			WithShortDescription(sarif.NewMultiformatMessageString().WithText(rule.Title)).
			WithHelp(sarif.NewMultiformatMessageString().WithText(rule.Advice)).
			WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(levels[rule.Severity]))
	}
	for i := range report.Findings {
		run.AddResult(resultOf(&report.Findings[i], at))
	}
	whole := sarif.NewReport()
	whole.AddRun(run)
	if err := whole.PrettyWrite(o.Env.Out); err != nil {
		return fmt.Errorf("write SARIF: %w", err)
	}
	o.Line("") // the end of the last line
	return nil
}

// resultOf returns a finding in SARIF. Its location is a Kubernetes object, and the file if there is one.
func resultOf(finding *cliv1alpha1.CheckFinding, ruleAt map[string]int) *sarif.Result {
	object := sarif.NewLogicalLocation().WithName(finding.Object.Name).
		WithKind("resource").WithFullyQualifiedName(fullName(finding))
	location := sarif.NewLocation().WithLogicalLocations([]*sarif.LogicalLocation{object})
	if finding.Source != "" {
		// SARIF viewers do not show findings without a line. The finding is about the whole file.
		location.WithPhysicalLocation(sarif.NewPhysicalLocation().
			WithArtifactLocation(sarif.NewArtifactLocation().WithURI(finding.Source)).
			WithRegion(sarif.NewRegion().WithStartLine(1)))
	}
	return sarif.NewRuleResult(finding.Rule).
		WithRuleIndex(ruleAt[finding.Rule]).
		WithLevel(levels[finding.Severity]).
		WithMessage(sarif.NewTextMessage(fmt.Sprintf("%s: %s %s", fullName(finding), finding.Message, finding.Advice))).
		WithLocations([]*sarif.Location{location}).
		WithPartialFingerprints(map[string]string{"taintkeeper/v1": fingerprint(finding)})
}

// fullName returns Kind/namespace/name, or Kind/name.
func fullName(finding *cliv1alpha1.CheckFinding) string {
	if finding.Object.Namespace == "" {
		return objectOf(finding)
	}
	return strings.Join([]string{finding.Object.Kind, finding.Object.Namespace, finding.Object.Name}, "/")
}

// fingerprint identifies a finding across reports.
func fingerprint(finding *cliv1alpha1.CheckFinding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{finding.Rule, fullName(finding), finding.Message}, "\n")))
	return hex.EncodeToString(sum[:])
}

// printJUnit prints a report as JUnit XML. Each rule is a suite, and each finding that reaches --fail-on is a failed
// test. Other findings are the output of tests that pass.
func printJUnit(o *output.Printer, report *cliv1alpha1.CheckReport, fails func(*cliv1alpha1.CheckFinding) bool) error {
	suites := junit.Testsuites{Name: "kubectl taintkeeper check"}
	for i, rule := range report.Rules {
		suite := junit.Testsuite{Name: rule.ID, ID: i, Time: "0"}
		suite.SetTimestamp(report.At.UTC())
		for j := range report.Findings {
			if finding := &report.Findings[j]; finding.Rule == rule.ID {
				suite.AddTestcase(testcaseOf(finding, fails))
			}
		}
		if suite.Tests == 0 {
			suite.AddTestcase(junit.Testcase{Name: "nothing found", Classname: rule.ID})
		}
		suites.AddSuite(suite)
	}
	if _, err := io.WriteString(o.Env.Out, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"); err != nil {
		return err
	}
	return suites.WriteXML(o.Env.Out)
}

func testcaseOf(finding *cliv1alpha1.CheckFinding, fails func(*cliv1alpha1.CheckFinding) bool) junit.Testcase {
	test := junit.Testcase{Name: fullName(finding), Classname: finding.Rule}
	text := strings.TrimSpace(fmt.Sprintf("%s: %s\n%s\n%s", strings.ToLower(string(finding.Severity)), finding.Message, finding.Advice, strings.Join(finding.Examples, "\n")))
	if fails(finding) {
		test.Failure = &junit.Result{Message: finding.Message, Type: strings.ToLower(string(finding.Severity)), Data: text}
		return test
	}
	test.SystemOut = &junit.Output{Data: text}
	return test
}
