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

// mostListed is how many workloads, budgets or pods a table lists unless it is wide.
const mostListed = 10

// printReport prints a report for people: the answer, the story, what was lost, and what is not simulated. With -o name
// it prints the pods that leave, and with --no-headers only the tables.
func printReport(o *show.Printer, report *cliv1alpha1.SimulationReport) {
	if o.Format == show.Name {
		var names []string
		for i := range report.Pods {
			if pod := &report.Pods[i]; pod.LeavesAt != nil {
				names = append(names, show.PodName(pod.Namespace, pod.Name))
			}
		}
		o.Names(report.Notes, names)
		return
	}
	if o.NoHeaders {
		o.Notes(report.Notes)
		printLosses(o, report)
		return
	}
	lines := answer(report)
	o.Line("%s", lines[0])
	for _, line := range lines[1:] {
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
		o.Line("%s %s", interval(event), event.Message)
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

// answer summarizes the report in a few sentences: first what happens to nodes and workloads, and then each loss.
func answer(report *cliv1alpha1.SimulationReport) []string {
	s := report.Summary
	var happens []string
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
	headline := fmt.Sprintf("Over %s, %s", span(report.Until), joined(happens))
	if lost := lostIn(report); len(lost) > 0 {
		headline += fmt.Sprintf(": %s %s no ready replica for a while",
			joined(lost), sentence.Agree(len(lost), "has", "have"))
	}
	if down := downIn(report); down > 0 {
		headline += fmt.Sprintf(". At most %s %s down at once",
			sentence.Counted(down, "replica"), sentence.Agree(down, "is", "are"))
	}
	lines := []string{show.EvictedBy(report.EvictedBy, headline+".")}
	for _, one := range losses {
		if n := one.of(s); n > 0 && one.failOn != command.LostWorkload {
			lines = append(lines, counted(n, one.one, one.many)+".")
		}
	}
	return lines
}

// lostIn names the first workloads that have no ready replica for a while, and counts the others.
func lostIn(report *cliv1alpha1.SimulationReport) (names []string) {
	for i := range report.Workloads {
		if w := &report.Workloads[i]; w.Lowest == 0 {
			names = append(names, w.Kind+" "+show.FullName(w.Namespace, w.Name))
		}
	}
	if more := len(names) - mostNamed; more > 1 {
		names = append(names[:mostNamed], sentence.Counted(more, "more workload"))
	}
	return names
}

// downIn returns how many ready replicas the workloads lack at most at one time.
func downIn(report *cliv1alpha1.SimulationReport) (most int) {
	changes := map[time.Duration]int{}
	for i := range report.Workloads {
		w := &report.Workloads[i]
		missing := 0
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

// mostReasons is how many reasons are printed, and mostNamed how many lost workloads the first line names.
const mostReasons, mostNamed = 3, 3

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

// printLosses prints which workloads had fewer replicas and which budgets were overrun.
func printLosses(o *show.Printer, report *cliv1alpha1.SimulationReport) {
	type workload = cliv1alpha1.SimulatedWorkload
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

// known is a text about a workload whose owner is a controller that is known.
func known(w cliv1alpha1.SimulatedWorkload, text string) string {
	if w.Unknown {
		return "unknown"
	}
	return text
}

// printWorst prints the first rows of a table, which are the worst, and says how many more there are.
func printWorst[R any](o *show.Printer, rows []R, columns []show.Column[R]) {
	if len(rows) == 0 {
		return
	}
	if !o.NoHeaders {
		o.Line("")
	}
	shown, rest := show.Most(o, mostListed, rows)
	show.Table(o, columns, shown)
	o.More(len(rest))
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
	at := sentence.Absolute(report.At.Time)
	return web.Write(o.output.Env.Out, web.Page{
		Kind: web.Simulate, Title: "Simulation: " + name, Answer: lines[0], Losses: slices.Concat(lines[1:], reasons(report)),
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
