// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/web"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// mostListed is how many workloads, budgets or pods a table lists unless it is wide.
const mostListed = 10

// printReport prints a report for people: the answer, the story, what was lost, and what is not simulated. With -o name
// it prints the pods that leave, and with --no-headers only the tables.
func printReport(o *output.Printer, report *cliv1alpha1.SimulationReport) error {
	switch {
	case o.Format == output.Name:
		o.Notes(report.Notes)
		for i := range report.Pods {
			if pod := &report.Pods[i]; pod.LeavesAt != nil {
				o.Line("%s", output.PodName(pod.Namespace, pod.Name))
			}
		}
		return nil
	case o.NoHeaders:
		o.Notes(report.Notes)
		return printLosses(o, report)
	}
	for _, line := range answer(report) {
		o.Line("%s", line)
	}
	for _, line := range reasons(report) {
		o.Line("- %s", line)
	}
	if name := clusterOf(report); name != "" {
		o.Line("This simulation is for cluster %s.", name)
	}
	o.Line("")
	for _, event := range report.Story {
		o.Line("%s %s", interval(event), event.Message)
	}
	if len(report.Story) == 0 {
		o.Line("Nothing happens.")
	}
	if err := printLosses(o, report); err != nil {
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

// answer summarizes the report in a few sentences.
func answer(report *cliv1alpha1.SimulationReport) []string {
	s := report.Summary
	var happens, lines []string
	for _, one := range []struct {
		n         int
		one, many string
	}{
		{s.Unreachable, "1 node becomes unreachable", "nodes become unreachable"},
		{s.Tainted, "1 node gets a NoExecute taint", "nodes get a NoExecute taint"},
		{s.Left, "1 pod leaves", "pods leave"},
	} {
		if one.n > 0 {
			happens = append(happens, counted(one.n, one.one, one.many))
		}
	}
	if len(happens) == 0 {
		happens = []string{"no node becomes unreachable or gets a NoExecute taint, and no pod leaves"}
	}
	happens[0] = fmt.Sprintf("Over %s, %s", span(report.Until), happens[0])
	lines = append(lines, output.Answer(report.EvictedBy, joined(happens)+"."))
	for _, one := range losses {
		if n := one.of(s); n > 0 {
			lines = append(lines, counted(n, one.one, one.many)+".")
		}
	}
	return lines
}

// clusterOf returns the user's name for the cluster of a report. It is empty for files.
func clusterOf(report *cliv1alpha1.SimulationReport) string {
	return state.Location{Context: report.Context, Cluster: report.Cluster, Server: report.Server}.String()
}

// mostReasons is how many reasons are printed.
const mostReasons = 3

// reasons says why pods are held, have no room or no volume at the end, or may have no successor, and why nodes are not
// tainted.
func reasons(report *cliv1alpha1.SimulationReport) []string {
	pods, nodes := map[string]int{}, map[string]int{}
	for i := range report.Pods {
		switch pod := &report.Pods[i]; {
		case pod.HeldBy != "":
			pods[pod.HeldBy]++
		case pod.WaitsSince != nil && pod.WaitsUntil == nil:
			pods[pod.Reason]++
		case pod.Volume != "":
			pods[pod.Volume]++
		case pod.SuccessorUnknown:
			pods[pod.NoSuccessor]++
		}
	}
	for i := range report.Nodes {
		if held := report.Nodes[i].Held; held != "" {
			nodes["Not tainted NoExecute: "+held]++
		}
	}
	return slices.Concat(frequent(nodes, "node"), frequent(pods, "pod"))
}

// frequent lists reasons, the most frequent first.
func frequent(reasons map[string]int, of string) (lines []string) {
	all := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	for _, reason := range all[:min(len(all), mostReasons)] {
		lines = append(lines, fmt.Sprintf("%s (%s)", strings.TrimSuffix(reason, "."), sentence.Counted(reasons[reason], of)))
	}
	if more := len(all) - mostReasons; more > 0 {
		lines = append(lines, sentence.Counted(more, "more reason")+", in -o json")
	}
	return lines
}

// joined joins parts, with "and" before the last.
func joined(parts []string) string {
	last := len(parts) - 1
	if last == 0 {
		return parts[0]
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// losses are the parts of a report that need attention, with their names in --fail-on.
var losses = []struct {
	failOn, one, many string
	of                func(cliv1alpha1.SimulationSummary) int
}{
	{command.LostPod, "1 pod leaves that no controller replaces", "pods leave that no controller replaces",
		func(s cliv1alpha1.SimulationSummary) int { return s.PodsLost }},
	{command.LostWorkload, "1 workload has no ready replica for a while", "workloads have no ready replica for a while",
		func(s cliv1alpha1.SimulationSummary) int { return s.WorkloadsLost }},
	{command.Budget, "1 PodDisruptionBudget is overrun", "PodDisruptionBudgets are overrun",
		func(s cliv1alpha1.SimulationSummary) int { return s.BudgetsOverrun }},
	{"", "1 pod is preempted to make room for pods of higher priority",
		"pods are preempted to make room for pods of higher priority",
		func(s cliv1alpha1.SimulationSummary) int { return s.Preempted }},
	{"", "1 due pod is held by EvictionPolicies at the end", "due pods are held by EvictionPolicies at the end",
		func(s cliv1alpha1.SimulationSummary) int { return s.Held }},
	{command.Nowhere, "1 pod has no room at the end", "pods have no room at the end",
		func(s cliv1alpha1.SimulationSummary) int { return s.Nowhere }},
	{"", "1 pod waits at the end for a volume that is attached to another node",
		"pods wait at the end for volumes that are attached to other nodes",
		func(s cliv1alpha1.SimulationSummary) int { return s.Unattached }},
	{"", "1 pod loses the data in its emptyDir volumes", "pods lose the data in their emptyDir volumes",
		func(s cliv1alpha1.SimulationSummary) int { return s.LocalData }},
}

// counted returns the text for one, or the number and the text for many.
func counted(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// interval says when an event happens.
func interval(event cliv1alpha1.SimulationEvent) string {
	at := "+" + span(event.At)
	if event.Ends != nil {
		at += " to +" + span(*event.Ends)
	}
	return at
}

func span(d metav1.Duration) string { return sentence.Span(d.Duration) }

// printLosses prints which workloads had fewer replicas and which budgets were overrun. Names are in the last column
// because a narrow terminal shows long ones below their rows.
func printLosses(o *output.Printer, report *cliv1alpha1.SimulationReport) error {
	if len(report.Workloads) > 0 {
		if !o.NoHeaders {
			o.Line("")
		}
		rows := make([][]any, 0, len(report.Workloads))
		for _, w := range report.Workloads {
			lasts, atEnd := span(w.LowestFor), fmt.Sprintf("%d/%d", w.AtEnd, w.Replicas)
			if w.Unknown {
				lasts, atEnd = "unknown", "unknown"
			}
			rows = append(rows, []any{
				fmt.Sprintf("%d/%d", w.Lowest, w.Replicas), lasts, "+" + span(w.LowestAt), atEnd,
				w.Kind + " " + output.FullName(w.Namespace, w.Name),
			})
		}
		if err := printTable(o, []string{"Lowest", "For", "From", "At end", "Workload"}, rows); err != nil {
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
			fmt.Sprint(b.Desired), fmt.Sprint(b.Lowest), span(b.OverrunFor), "+" + span(b.LowestAt),
			output.FullName(b.Namespace, b.Name),
		})
	}
	return printTable(o, []string{"Asks for", "Lowest", "Too few for", "Lowest at", "PodDisruptionBudget"}, rows)
}

// printTable prints the first rows of a table, or all rows if it is wide, and says how many more there are.
func printTable(o *output.Printer, columns []string, rows [][]any) error {
	more := 0
	if o.Format != output.Wide && len(rows) > mostListed {
		more = len(rows) - mostListed
		rows = rows[:mostListed]
	}
	if err := o.TableWithReasons(columns, rows); err != nil {
		return err
	}
	if more > 0 {
		o.Line("... and %d more: -o wide lists them all.", more)
	}
	return nil
}

// simulateFound returns what --fail-on can ask for.
func simulateFound(report *cliv1alpha1.SimulationReport) map[string]string {
	all := map[string]string{}
	for _, one := range losses {
		if n := one.of(report.Summary); n > 0 {
			all[one.failOn] = counted(n, one.one, one.many)
		}
	}
	return all
}

// printPage prints a report as one page.
func (o *simulateOptions) printPage(report *cliv1alpha1.SimulationReport) error {
	lines := answer(report)
	name := o.name
	if name == "-" {
		name = "stdin"
	}
	at := output.Absolute(report.At.Time)
	return web.Write(o.output.Env.Out, web.Page{
		Kind: web.Simulate, Title: "Simulation: " + name, Answer: lines[0], Losses: slices.Concat(lines[1:], reasons(report)),
		Facts: pageFacts(clusterOf(report), web.Fact{Name: "Scenario", Value: name + ", " + o.scenario.String()}, web.Fact{Name: "Starts at", Value: at}),
		Workloads: web.NewTable([]string{"Workload", "Lowest", "For", "From"}, report.Workloads, func(w cliv1alpha1.SimulatedWorkload) []string {
			return []string{
				w.Kind + " " + output.FullName(w.Namespace, w.Name), fmt.Sprintf("%d of %d", w.Lowest, w.Replicas),
				span(w.LowestFor), "+" + span(w.LowestAt),
			}
		}),
		Footer: "A simulation says what would happen to the cluster in its state at " + at + ". It changed nothing. -o json prints the same report.",
		Data:   report,
	})
}
