// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// printCheck prints a report for a person: how much was checked, which controllers are active, the findings, and what
// to do about them.
func printCheck(o *show.Printer, report *cliv1alpha1.CheckReport) {
	if o.NoHeaders {
		printFindings(o, report)
		return
	}
	o.Line("%s", checkFound(report))
	manifests := report.Summary.Nodes+report.Summary.Pods == 0 // nothing is known about the cluster
	if !manifests {
		printCluster(o, report)
	}
	if len(report.Findings) > 0 {
		o.Line("")
		printFindings(o, report)
	}
	if manifests {
		o.Line("")
		printNotes(o, report)
	}
}

func printNotes(o *show.Printer, report *cliv1alpha1.CheckReport) {
	for _, note := range report.Notes {
		o.Line("Note: %s", note)
	}
}

// printFindings prints a table for scripts and -o wide, and for people the findings of each rule with its advice.
func printFindings(o *show.Printer, report *cliv1alpha1.CheckReport) {
	if !o.NoHeaders && o.Format != show.Wide {
		printByRule(o, report)
		return
	}
	type row = cliv1alpha1.CheckFinding
	show.Table(o, []show.Column[row]{
		{Title: "Severity", Cell: func(f row) string { return strings.ToLower(string(f.Severity)) }},
		{Title: "Rule", Cell: func(f row) string { return f.Rule }},
		{Title: "Namespace", Cell: func(f row) string { return f.Object.Namespace }},
		{Title: "Object", Cell: func(f row) string { return objectOf(&f) }},
		{Title: "Count", Cell: func(f row) string { return strings.TrimPrefix(strconv.Itoa(f.Count), "0") }},
		{Title: "Finding", Cell: func(f row) string { return f.Message }},
		{Title: "Advice", Wide: true, Cell: func(f row) string { return f.Advice }},
		{Title: "Examples", Wide: true, Cell: func(f row) string { return strings.Join(f.Examples, ",") }},
		{Title: "Source", Wide: true, Cell: func(f row) string { return f.Source }},
	}, report.Findings)
}

// printCluster prints which controllers are active, and what is not known.
func printCluster(o *show.Printer, report *cliv1alpha1.CheckReport) {
	for _, task := range report.Controllers {
		o.Line("%s", task.Message)
		if o.Format == show.Wide {
			for _, sign := range task.Signs {
				o.Line("  %s", sign)
			}
		}
	}
	printNotes(o, report)
}

// mostOfARule is how many different findings of a rule are printed.
const mostOfARule = 10

// printByRule prints the findings of each rule below its name, with what to do about them. Objects with the same finding
// share it.
func printByRule(o *show.Printer, report *cliv1alpha1.CheckReport) {
	for rest := report.Findings; len(rest) > 0; {
		first := rest[0]
		of := slices.IndexFunc(rest, func(f cliv1alpha1.CheckFinding) bool { return f.Rule != first.Rule })
		if of < 0 {
			of = len(rest)
		}
		o.Line("%s %s", strings.ToLower(string(first.Severity)), first.Rule)
		printOneRule(o, rest[:of])
		rest = rest[of:]
	}
}

func printOneRule(o *show.Printer, findings []cliv1alpha1.CheckFinding) {
	type same struct{ message, advice string }
	var order []same
	objects := map[same][]string{}
	for i := range findings {
		f := &findings[i]
		is := same{f.Message, f.Advice}
		if objects[is] == nil {
			order = append(order, is)
		}
		objects[is] = append(objects[is], strings.TrimSpace(f.Object.Namespace+" "+objectOf(f)))
	}
	for i, is := range order[:min(len(order), mostOfARule)] {
		o.Line("  %s: %s", sentence.Some(objects[is]), is.message)
		if i+1 == len(order) || order[i+1].advice != is.advice {
			o.Line("  Advice: %s", is.advice)
		}
	}
	if more := len(order) - mostOfARule; more > 0 {
		o.Line("  ... and %d more: -o wide. Advice: %s", more, order[mostOfARule-1].advice)
	}
}

// checkFound is the first line.
func checkFound(report *cliv1alpha1.CheckReport) string {
	s := report.Summary
	return fmt.Sprintf("%s, %s, %s: %s, %s, %s and %s checked.",
		sentence.Counted(s.Errors, "error"), sentence.Counted(s.Warnings, "warning"), sentence.Counted(s.Infos, "info"),
		sentence.Counted(s.Nodes, "node"), sentence.Counted(s.Pods, "pod"),
		sentence.Counted(s.Workloads, "workload"), sentence.Counted(s.Budgets, "PodDisruptionBudget"))
}

func objectOf(finding *cliv1alpha1.CheckFinding) string {
	return finding.Object.Kind + "/" + finding.Object.Name
}

// namesOf returns each object that a finding is about, once.
func namesOf(report *cliv1alpha1.CheckReport) (names []string) {
	said := map[cliv1alpha1.CheckedObject]bool{}
	for i := range report.Findings {
		if object := report.Findings[i].Object; !said[object] {
			said[object] = true
			names = append(names, strings.ToLower(object.Kind)+"/"+object.Name)
		}
	}
	return names
}

// levels are SARIF's words for severities.
var levels = map[cliv1alpha1.Severity]string{
	cliv1alpha1.SeverityError:   "error",
	cliv1alpha1.SeverityWarning: "warning",
	cliv1alpha1.SeverityInfo:    "note",
}

// printSARIF prints a report as SARIF 2.1.0, which code scanning reads.
func printSARIF(o *show.Printer, report *cliv1alpha1.CheckReport) error {
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
func printJUnit(o *show.Printer, report *cliv1alpha1.CheckReport, fails func(*cliv1alpha1.CheckFinding) bool) error {
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
