// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// printPlan prints a plan for a person: the answer, what to look at, and then every pod.
func printPlan(o *output, plan *cliv1alpha1.TaintPlan) error {
	if o.format == formatName || o.noHeaders {
		o.notes(plan.Notes)
	}
	if o.format == formatName {
		for i := range plan.Pods {
			if pod := &plan.Pods[i]; pod.Leaves {
				o.line("pod/%s", pod.Name)
			}
		}
		return nil
	}
	if !o.noHeaders {
		for _, line := range summary(plan) {
			o.line("%s", line)
		}
	}
	if len(plan.Pods) == 0 {
		return nil
	}
	if !o.noHeaders {
		o.line("")
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
	return o.table(columns, rows)
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
		parts = append(parts, "the last in "+relative(plan.At.Time, s.Last.Time))
	default:
		parts = append(parts, fmt.Sprintf("%d at once", s.AtOnce),
			fmt.Sprintf("%d more within %s", later, relative(plan.At.Time, s.Last.Time)))
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
		leaves, at = relative(plan.At.Time, pod.Due.Time), absolute(pod.Due.Time)
	}
	if pod.DueBefore != nil {
		before = absolute(pod.DueBefore.Time)
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
		return inWords(*pod.Toleration)
	case pod.Taint != "":
		return "none"
	}
	return ""
}

// inWords writes a toleration as the taints that it matches, and for how long.
func inWords(t corev1.Toleration) string {
	what := t.Key
	switch {
	case t.Key == "":
		what = "everything"
	case t.Operator == "" || t.Operator == corev1.TolerationOpEqual:
		if t.Value != "" {
			what += "=" + t.Value
		}
	case t.Operator != corev1.TolerationOpExists:
		what += " " + string(t.Operator) + " " + t.Value
	default:
		what += "=*"
	}
	if t.Effect != "" {
		what += ":" + string(t.Effect)
	}
	if t.TolerationSeconds != nil {
		return fmt.Sprintf("%s for %ds", what, *t.TolerationSeconds)
	}
	return what + " for ever"
}

// relative says how long it is from one instant to another.
func relative(from, to time.Time) string {
	if !to.After(from) {
		return "now"
	}
	if to.Sub(from) < time.Second {
		return "1s"
	}
	return duration.HumanDuration(to.Sub(from))
}

func absolute(at time.Time) string { return at.UTC().Format(time.RFC3339) }
