// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package summary says in a few lines what a plan does: how many pods leave, what is lost, and where pods would go.
// Plans and pages begin with it, and taint shows it before it asks.
package summary

import (
	"fmt"
	"slices"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Lines is what a plan says before it names every pod: the answer, what is lost, and what could not be known.
func Lines(plan *cliv1alpha1.TaintPlan) []string {
	lines := slices.Concat([]string{Answer(plan)}, Silence(plan), Policies(plan), Losses(plan), whereToLines(plan))
	for _, note := range plan.Notes {
		lines = append(lines, "Note: "+note)
	}
	return lines
}

// Answer is the first line.
func Answer(plan *cliv1alpha1.TaintPlan) string {
	s := plan.Summary
	pods, nodes := sentence.Counted(s.Pods, "pod"), sentence.Counted(s.Nodes, "node")
	if s.Leave == 0 {
		return fmt.Sprintf("No pod leaves: %s on %s may stay.", pods, nodes)
	}
	do, objections := "leave", objections(plan)
	if objections != "" {
		do = "are due"
	}
	parts := []string{fmt.Sprintf("%d of %s on %s %s", s.Leave, pods, nodes, do)}
	switch later := s.Leave - s.AtOnce; {
	case later == 0:
		parts = append(parts, "all of them at once")
	case s.AtOnce == 0:
		parts = append(parts, "the last in "+output.Relative(plan.At.Time, s.Last.Time))
	default:
		parts = append(parts, fmt.Sprintf("%d at once", s.AtOnce),
			fmt.Sprintf("%d more within %s", later, output.Relative(plan.At.Time, s.Last.Time)))
	}
	return strings.Join(parts, ", ") + objections + "."
}

// Losses says what is lost besides pods.
func Losses(plan *cliv1alpha1.TaintPlan) []string {
	var lines []string
	for _, workload := range plan.Workloads {
		if workload.Leave == workload.Replicas {
			lines = append(lines, fmt.Sprintf("%s %s/%s loses every replica: %d of %d.",
				workload.Kind, workload.Namespace, workload.Name, workload.Leave, workload.Replicas))
		}
	}
	for _, budget := range plan.Budgets {
		if budget.Breach > 0 {
			lines = append(lines, fmt.Sprintf("PodDisruptionBudget %s/%s allows %s, and %s that it covers: %s.", budget.Namespace, budget.Name, sentence.Counted(int(budget.Allowed), "disruption"), leaves(budget.Leave), unasked(plan)))
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

// leaves says how many pods leave.
func leaves(pods int) string {
	if pods == 1 {
		return "1 pod leaves"
	}
	return fmt.Sprintf("%d pods leave", pods)
}
