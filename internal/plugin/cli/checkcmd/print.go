// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package checkcmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// printCheck prints a report for a person: how much was checked, which controllers are active, the findings, and what
// to do about them.
func printCheck(o *output.Printer, report *cliv1alpha1.CheckReport) error {
	if o.NoHeaders {
		return printFindings(o, report)
	}
	o.Line("%s", found(report))
	manifests := report.Summary.Nodes+report.Summary.Pods == 0 // nothing is known about the cluster
	if !manifests {
		printCluster(o, report)
	}
	if len(report.Findings) > 0 {
		o.Line("")
	}
	if err := printFindings(o, report); err != nil || !manifests {
		return err
	}
	o.Line("")
	printNotes(o, report)
	return nil
}

func printNotes(o *output.Printer, report *cliv1alpha1.CheckReport) {
	for _, note := range report.Notes {
		o.Line("Note: %s", note)
	}
}

func printFindings(o *output.Printer, report *cliv1alpha1.CheckReport) error {
	if len(report.Findings) == 0 {
		return nil
	}
	rows := make([][]any, 0, len(report.Findings))
	for i := range report.Findings {
		rows = append(rows, findingRow(&report.Findings[i]))
	}
	columns := []string{
		"Severity", "Rule", "Namespace", "Object", "Count", "Finding",
		"+Advice", "+Examples", "+Source",
	}
	if o.IsNarrow(columns, rows) {
		printByRule(o, report)
		return nil
	}
	if err := o.Table(columns, rows); err != nil {
		return err
	}
	if !o.NoHeaders && o.Format != output.Wide {
		printAdvice(o, report)
	}
	return nil
}

// printCluster prints which controllers are active, and what is not known.
func printCluster(o *output.Printer, report *cliv1alpha1.CheckReport) {
	for _, task := range report.Controllers {
		o.Line("%s", task.Message)
		if o.Format == output.Wide {
			for _, sign := range task.Signs {
				o.Line("  %s", sign)
			}
		}
	}
	printNotes(o, report)
}

// printByRule prints the findings of each rule below its name, with what to do about them. A terminal shows this if it
// is too narrow for the table's last column, which says what was found.
func printByRule(o *output.Printer, report *cliv1alpha1.CheckReport) {
	findings := report.Findings
	for i := range findings {
		finding := &findings[i]
		if i == 0 || findings[i-1].Rule != finding.Rule {
			o.Line("%s %s", strings.ToLower(string(finding.Severity)), finding.Rule)
		}
		o.Line("  %s: %s", strings.TrimSpace(finding.Object.Namespace+" "+objectOf(finding)), finding.Message)
		if i+1 == len(findings) || findings[i+1].Rule != finding.Rule || findings[i+1].Advice != finding.Advice {
			o.Line("  Advice: %s", finding.Advice)
		}
	}
}

// found is the first line.
func found(report *cliv1alpha1.CheckReport) string {
	s := report.Summary
	return fmt.Sprintf("%s, %s, %s: %s, %s, %s and %s checked.",
		sentence.Counted(s.Errors, "error"), sentence.Counted(s.Warnings, "warning"), sentence.Counted(s.Infos, "info"),
		sentence.Counted(s.Nodes, "node"), sentence.Counted(s.Pods, "pod"),
		sentence.Counted(s.Workloads, "workload"), sentence.Counted(s.Budgets, "PodDisruptionBudget"))
}

func findingRow(finding *cliv1alpha1.CheckFinding) []any {
	number := ""
	if finding.Count > 0 {
		number = strconv.Itoa(finding.Count)
	}
	return []any{
		strings.ToLower(string(finding.Severity)), finding.Rule,
		finding.Object.Namespace, objectOf(finding), number, finding.Message,
		finding.Advice, strings.Join(finding.Examples, ","), finding.Source,
	}
}

func objectOf(finding *cliv1alpha1.CheckFinding) string {
	return finding.Object.Kind + "/" + finding.Object.Name
}

// printAdvice prints once what to do about each kind of finding.
func printAdvice(o *output.Printer, report *cliv1alpha1.CheckReport) {
	o.Line("")
	var said []string
	for i := range report.Findings {
		advice := report.Findings[i].Rule + ": " + report.Findings[i].Advice
		if !slices.Contains(said, advice) {
			said = append(said, advice)
			o.Line("%s", advice)
		}
	}
}

// printNames prints each object that a finding is about, once.
func printNames(o *output.Printer, report *cliv1alpha1.CheckReport) {
	said := map[cliv1alpha1.CheckedObject]bool{}
	for i := range report.Findings {
		if object := report.Findings[i].Object; !said[object] {
			said[object] = true
			o.Line("%s/%s", strings.ToLower(object.Kind), object.Name)
		}
	}
}
