// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulatecmd

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// mostListed is how many workloads, budgets and pods a table lists, unless it is wide.
const mostListed = 10

// printReport prints a report for a person: the answer, the story, what was lost, and what was left out.
func printReport(o *output.Printer, report *cliv1alpha1.SimulationReport) error {
	for _, line := range answer(report) {
		o.Line("%s", line)
	}
	o.Line("")
	for _, event := range report.Story {
		o.Line("%s %s", interval(event), event.Message)
	}
	if len(report.Story) == 0 {
		o.Line("Nothing happens.")
	}
	if err := printWorkloads(o, report); err != nil {
		return err
	}
	o.Line("")
	o.Line("Not simulated:")
	for _, not := range report.NotSimulated {
		o.Line("- %s", not)
	}
	o.Notes(report.Notes)
	return nil
}

// answer is the report in a few sentences.
func answer(report *cliv1alpha1.SimulationReport) []string {
	s := report.Summary
	lines := []string{fmt.Sprintf("In %s, %s unreachable, %s a NoExecute taint, and %s.",
		span(report.Until), are(s.Unreachable, "node"), get(s.Tainted, "node"), leave(s.Left))}
	for _, one := range []struct {
		n    int
		says string
	}{
		{s.WorkloadsLost, sentence.Counted(s.WorkloadsLost, "workload") + " without a ready replica at some time."},
		{s.BudgetsOverrun, sentence.Counted(s.BudgetsOverrun, "PodDisruptionBudget") + " overrun at some time."},
		{s.Held, sentence.Counted(s.Held, "due pod") + " held by EvictionPolicies at the end."},
		{s.Nowhere, sentence.Counted(s.Nowhere, "pod") + " without room at the end."},
	} {
		if one.n > 0 {
			lines = append(lines, one.says)
		}
	}
	return lines
}

func are(n int, what string) string {
	if n == 1 {
		return "1 " + what + " becomes"
	}
	return sentence.Counted(n, what) + " become"
}

func get(n int, what string) string {
	if n == 1 {
		return "1 " + what + " gets"
	}
	return sentence.Counted(n, what) + " get"
}

func leave(n int) string {
	if n == 1 {
		return "1 pod leaves"
	}
	return sentence.Counted(n, "pod") + " leave"
}

// interval says when an event happens.
func interval(event cliv1alpha1.SimulationEvent) string {
	at := "+" + span(event.At)
	if event.Ends != nil {
		at += " to +" + span(*event.Ends)
	}
	return at
}

// span writes a duration in whole seconds, if it has any.
func span(d metav1.Duration) string {
	if d.Duration >= time.Second {
		return d.Round(time.Second).String()
	}
	return d.Duration.String()
}

func printWorkloads(o *output.Printer, report *cliv1alpha1.SimulationReport) error {
	if len(report.Workloads) > 0 {
		o.Line("")
		rows := make([][]any, 0, len(report.Workloads))
		for _, w := range report.Workloads {
			rows = append(rows, []any{
				w.Namespace, w.Kind + "/" + w.Name, fmt.Sprintf("%d/%d", w.Lowest, w.Replicas),
				span(w.LowestFor), "+" + span(w.LowestAt), fmt.Sprintf("%d/%d", w.AtEnd, w.Replicas),
			})
		}
		if err := printTable(o, []string{"Namespace", "Workload", "Lowest", "For", "From", "At end"}, rows); err != nil {
			return err
		}
	}
	if len(report.Budgets) == 0 {
		return nil
	}
	o.Line("")
	rows := make([][]any, 0, len(report.Budgets))
	for _, b := range report.Budgets {
		rows = append(rows, []any{
			b.Namespace, b.Name, fmt.Sprint(b.Desired), fmt.Sprint(b.Lowest), span(b.OverrunFor), "+" + span(b.LowestAt),
		})
	}
	return printTable(o, []string{"Namespace", "Budget", "Asks for", "Lowest", "Too few for", "Lowest at"}, rows)
}

// printTable prints the first rows of a table, all of them if it is wide, and says how many more there are.
func printTable(o *output.Printer, columns []string, rows [][]any) error {
	more := 0
	if o.Format != output.Wide && len(rows) > mostListed {
		more = len(rows) - mostListed
		rows = rows[:mostListed]
	}
	if err := o.Table(columns, rows); err != nil {
		return err
	}
	if more > 0 {
		o.Line("... and %d more: -o wide lists them all.", more)
	}
	return nil
}

// found says what --fail-on can ask for.
func found(report *cliv1alpha1.SimulationReport) map[string]string {
	all := map[string]string{}
	add := func(key string, n int, what string) {
		if n > 0 {
			all[key] = sentence.Counted(n, what)
		}
	}
	add(command.LostWorkload, report.Summary.WorkloadsLost, "lost workload")
	add(command.Budget, report.Summary.BudgetsOverrun, "overrun budget")
	add(command.Nowhere, report.Summary.Nowhere, "pod without room")
	if n := report.Summary.Nowhere; n > 1 {
		all[command.Nowhere] = fmt.Sprintf("%d pods without room", n)
	}
	return all
}
