// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// printPlan prints a plan for a person: the answer, what to look at, and then every pod.
func printPlan(o *output.Printer, plan *cliv1alpha1.TaintPlan) error {
	if o.Format == output.Name || o.NoHeaders {
		o.Notes(plan.Notes)
	}
	if o.Format == output.Name {
		for i := range plan.Pods {
			if pod := &plan.Pods[i]; pod.Leaves {
				o.Line("pod/%s", pod.Name)
			}
		}
		return nil
	}
	if !o.NoHeaders {
		for _, line := range summary(plan) {
			o.Line("%s", line)
		}
	}
	if len(plan.Pods) == 0 {
		return nil
	}
	if !o.NoHeaders {
		o.Line("")
	}
	rows := make([][]any, 0, len(plan.Pods))
	for i := range plan.Pods {
		rows = append(rows, podRow(plan, &plan.Pods[i]))
	}
	columns := []string{
		"Namespace", "Pod", "Node", "Leaves", "At", "Change", "Taint", "Toleration", "Owner",
		"+Priority", "+Grace", "+Budgets", "+Before",
	}
	if asksWhereTo(plan) {
		columns, rows = withWhereTo(plan, columns, rows)
	}
	return o.Table(columns, rows)
}

// summary is what a plan says before it names every pod: the answer, what is lost, and what could not be known.
func summary(plan *cliv1alpha1.TaintPlan) []string {
	lines := slices.Concat([]string{answer(plan)}, silenceLines(plan), losses(plan), whereToLines(plan))
	for _, note := range plan.Notes {
		lines = append(lines, "Note: "+note)
	}
	return lines
}

// answer is the first line.
func answer(plan *cliv1alpha1.TaintPlan) string {
	s := plan.Summary
	pods, nodes := sentence.Counted(s.Pods, "pod"), sentence.Counted(s.Nodes, "node")
	if s.Leave == 0 {
		return fmt.Sprintf("No pod leaves: %s on %s may stay.", pods, nodes)
	}
	parts := []string{fmt.Sprintf("%d of %s on %s leave", s.Leave, pods, nodes)}
	switch later := s.Leave - s.AtOnce; {
	case later == 0:
		parts = append(parts, "all of them at once")
	case s.AtOnce == 0:
		parts = append(parts, "the last in "+output.Relative(plan.At.Time, s.Last.Time))
	default:
		parts = append(parts, fmt.Sprintf("%d at once", s.AtOnce),
			fmt.Sprintf("%d more within %s", later, output.Relative(plan.At.Time, s.Last.Time)))
	}
	return strings.Join(parts, ", ") + "."
}

// losses says what is lost besides pods.
func losses(plan *cliv1alpha1.TaintPlan) []string {
	var lines []string
	for _, workload := range plan.Workloads {
		if workload.Leave == workload.Replicas {
			lines = append(lines, fmt.Sprintf("%s %s/%s loses every replica: %d of %d.",
				workload.Kind, workload.Namespace, workload.Name, workload.Leave, workload.Replicas))
		}
	}
	for _, budget := range plan.Budgets {
		if budget.Breach > 0 {
			lines = append(lines, fmt.Sprintf("PodDisruptionBudget %s/%s allows %s, and %s leave that it covers: evictions by taint do not ask it.", budget.Namespace, budget.Name, sentence.Counted(int(budget.Allowed), "disruption"), sentence.Counted(budget.Leave, "pod")))
		}
	}
	var emptied []string
	for _, node := range plan.Nodes {
		if node.Emptied {
			emptied = append(emptied, node.Name)
		}
	}
	if len(emptied) > 0 {
		count := sentence.Counted(len(emptied), "node")
		lines = append(lines, fmt.Sprintf("%s emptied: %s.", count, sentence.Enumerate(emptied)))
	}
	return lines
}

func podRow(plan *cliv1alpha1.TaintPlan, pod *cliv1alpha1.PlannedPod) []any {
	leaves, at, before := "stays", "", ""
	if pod.Leaves {
		leaves, at = output.Relative(plan.At.Time, pod.Due.Time), output.Absolute(pod.Due.Time)
	}
	if pod.DueBefore != nil {
		before = output.Absolute(pod.DueBefore.Time)
	}
	owner := ""
	if pod.Owner != nil {
		owner = pod.Owner.Kind + "/" + pod.Owner.Name
	}
	return []any{
		pod.Namespace, pod.Name, pod.Node, leaves, at,
		strings.ToLower(string(pod.Change)), pod.Taint, tolerationOf(pod), owner,
		strconv.Itoa(int(pod.Priority)), strconv.FormatInt(pod.GracePeriodSeconds, 10) + "s",
		strings.Join(pod.Budgets, ","), before,
	}
}

func tolerationOf(pod *cliv1alpha1.PlannedPod) string {
	switch {
	case pod.Reason != "":
		return pod.Reason
	case pod.Toleration != nil:
		return output.Toleration(*pod.Toleration)
	case pod.Taint != "":
		return "none"
	}
	return ""
}
