// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/web"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// printReport prints a report for people: the answer, the story, what was lost, and what is not simulated. With -o name
// it prints the pods that leave, and with --no-headers only the tables.
func printReport(o *show.Printer, report *cliv1alpha1.SimulationReport) {
	switch {
	case o.Format == show.Name:
		var names []string
		for i := range report.Pods {
			if pod := &report.Pods[i]; pod.LeavesAt != nil {
				names = append(names, show.PodName(pod.Namespace, pod.Name))
			}
		}
		o.Names(report.Notes, names)
		return
	case o.NoHeaders:
		o.Notes(report.Notes)
		printLosses(o, report)
		return
	}
	answer, losses := simulateAnswer(report)
	o.Line("%s", answer)
	for _, line := range losses {
		o.Loss(line)
	}
	for _, line := range reasons(report) {
		o.Line("- %s", line)
	}
	if name := clusterOf(report); name != "" {
		o.Line("This simulation is for cluster %s.", name)
	}
	o.Line("")
	for _, event := range report.Story {
		at := "+" + span(event.At)
		if event.Ends != nil {
			at += " to +" + span(*event.Ends)
		}
		o.Line("%s %s", at, event.Message)
	}
	if len(report.Story) == 0 {
		o.Line("Nothing happens.")
	}
	printLosses(o, report)
	o.Line("")
	o.Line("Not simulated:")
	for _, not := range report.NotSimulated {
		o.Line("- %s", not)
	}
	o.Notes(report.Notes)
}

// simulateAnswer says in a sentence what happens to nodes and workloads, and then in one for each what is lost.
func simulateAnswer(report *cliv1alpha1.SimulationReport) (answer string, losses []string) {
	s := report.Summary
	var happens, lost []string
	for _, one := range []show.Loss{
		{Of: s.Unreachable, What: "node", Does: "becomes unreachable", Do: "become unreachable"},
		{Of: s.Tainted, What: "node", Does: "gets a NoExecute taint", Do: "get a NoExecute taint"},
		{Of: s.Left, What: "pod", Does: "leaves", Do: "leave"},
	} {
		if one.Of > 0 {
			happens = append(happens, one.String())
		}
	}
	if len(happens) == 0 {
		happens = []string{"no node becomes unreachable or gets a NoExecute taint, and no pod leaves"}
	}
	answer = fmt.Sprintf("Over %s, %s", span(report.Until), joined(happens))
	for i := range report.Workloads {
		if w := &report.Workloads[i]; w.Lowest == 0 {
			lost = append(lost, w.Kind+" "+show.FullName(w.Namespace, w.Name))
		}
	}
	const mostNamed = 3
	if more := len(lost) - mostNamed; more > 1 {
		lost = append(lost[:mostNamed], sentence.Counted(more, "more workload"))
	}
	if len(lost) > 0 {
		answer += fmt.Sprintf(": %s %s no ready replica for a while", joined(lost), sentence.Agree(len(lost), "has", "have"))
	}
	if down := mostDown(report); down > 0 {
		answer += ". At most " + sentence.Do(down, "replica", "is", "are") + " down at once"
	}
	for _, loss := range show.SimulatedLosses(s) {
		if loss.Of > 0 && loss.FailOn != command.LostWorkload {
			losses = append(losses, loss.String()+".")
		}
	}
	return show.EvictedBy(report.EvictedBy, answer+"."), losses
}

// mostDown returns how many ready replicas the workloads lack at most at one time.
func mostDown(report *cliv1alpha1.SimulationReport) (most int) {
	changes := map[time.Duration]int{}
	for i := range report.Workloads {
		w, missing := &report.Workloads[i], 0
		for _, step := range w.Steps {
			now := max(w.Replicas-step.Ready, 0)
			changes[step.At.Duration] += now - missing
			missing = now
		}
	}
	down := 0
	for _, at := range slices.Sorted(maps.Keys(changes)) {
		down += changes[at]
		most = max(most, down)
	}
	return most
}

// clusterOf returns the user's name for the cluster of a report. It is empty for files.
func clusterOf(report *cliv1alpha1.SimulationReport) string {
	return state.Location{Context: report.Context, Cluster: report.Cluster, Server: report.Server}.String()
}

// reasons says why nodes are not tainted, and why pods are held, have no room or no volume at the end, or may have no
// successor. The most frequent reasons come first.
func reasons(report *cliv1alpha1.SimulationReport) (lines []string) {
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
	const most = 3
	for i, reasons := range []map[string]int{nodes, pods} {
		all := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
			return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
		})
		for _, reason := range all[:min(len(all), most)] {
			what := []string{"node", "pod"}[i]
			lines = append(lines, strings.TrimSuffix(reason, ".")+" ("+sentence.Counted(reasons[reason], what)+")")
		}
		if more := len(all) - most; more > 0 {
			lines = append(lines, sentence.Counted(more, "more reason")+", in -o json")
		}
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

func span(d metav1.Duration) string { return sentence.Span(d.Duration) }

// printLosses prints which workloads had fewer replicas and which budgets were overrun.
func printLosses(o *show.Printer, report *cliv1alpha1.SimulationReport) {
	type workload = cliv1alpha1.SimulatedWorkload
	known := func(w workload, text string) string { // its owner may be no controller of Kubernetes
		if w.Unknown {
			return "unknown"
		}
		return text
	}
	printWorst(o, report.Workloads, []show.Column[workload]{
		{Title: "Lowest", Cell: func(w workload) string { return fmt.Sprintf("%d/%d", w.Lowest, w.Replicas) }},
		{Title: "For", Cell: func(w workload) string { return known(w, span(w.LowestFor)) }},
		{Title: "From", Cell: func(w workload) string { return "+" + span(w.LowestAt) }},
		{Title: "At end", Cell: func(w workload) string { return known(w, fmt.Sprintf("%d/%d", w.AtEnd, w.Replicas)) }},
		{Title: "Workload", Cell: func(w workload) string { return w.Kind + " " + show.FullName(w.Namespace, w.Name) }},
	})
	type budget = cliv1alpha1.SimulatedBudget
	printWorst(o, report.Budgets, []show.Column[budget]{
		{Title: "Asks for", Cell: func(b budget) string { return fmt.Sprint(b.Desired) }},
		{Title: "Lowest", Cell: func(b budget) string { return fmt.Sprint(b.Lowest) }},
		{Title: "Too few for", Cell: func(b budget) string { return span(b.OverrunFor) }},
		{Title: "Lowest at", Cell: func(b budget) string { return "+" + span(b.LowestAt) }},
		{Title: "PodDisruptionBudget", Cell: func(b budget) string { return show.FullName(b.Namespace, b.Name) }},
	})
}

// printWorst prints the first rows of a table, which are the worst, and says how many more there are.
func printWorst[R any](o *show.Printer, rows []R, columns []show.Column[R]) {
	if len(rows) == 0 {
		return
	}
	if !o.NoHeaders {
		o.Line("")
	}
	const most = 10
	shown, rest := show.Most(o, most, rows)
	show.Table(o, columns, shown)
	o.More(len(rest))
}

// printPage prints a report as one page.
func (o *simulateOptions) printPage(report *cliv1alpha1.SimulationReport) error {
	answer, losses := simulateAnswer(report)
	name := o.name
	if name == "-" {
		name = "stdin"
	}
	at := sentence.Absolute(report.At.Time)
	return web.Write(o.output.Env.Out, web.Page{
		Kind: web.Simulate, Title: "Simulation: " + name, Answer: answer, Losses: append(losses, reasons(report)...),
		Facts: pageFacts(clusterOf(report), web.Fact{Name: "Scenario", Value: name + ", " + o.scenario.String()},
			web.Fact{Name: "Starts at", Value: at}),
		Workloads: web.NewTable([]string{"Workload", "Lowest", "For", "From"}, report.Workloads, func(w cliv1alpha1.SimulatedWorkload) []string {
			return []string{
				w.Kind + " " + show.FullName(w.Namespace, w.Name), fmt.Sprintf("%d of %d", w.Lowest, w.Replicas),
				span(w.LowestFor), "+" + span(w.LowestAt),
			}
		}),
		Footer: "A simulation says what would happen to the cluster in its state at " + at + ". It changed nothing. -o json prints the same report.",
		Data:   report,
	})
}
