// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"fmt"
	"slices"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// Policies says which breakers would trip, and how long a pace takes.
func Policies(plan *cliv1alpha1.TaintPlan) []string {
	var lines []string
	for _, p := range plan.Policies {
		if p.TripsAt != nil {
			when := strings.Replace(in(plan, p.TripsAt), "now", "at once", 1)
			lines = append(lines, fmt.Sprintf("EvictionPolicy %s would trip %s: %s.", p.Name, when, p.Trips))
		}
	}
	for _, p := range plan.Policies {
		if p.LastAt != nil {
			lines = append(lines, fmt.Sprintf("EvictionPolicy %s lets pods go %s: the last one %s, at %s.",
				p.Name, p.Pace, in(plan, p.LastAt), output.Absolute(p.LastAt.Time)))
		}
	}
	return lines
}

// objections counts the pods that are due by what policies say of them then; empty if no policy asks or holds.
func objections(plan *cliv1alpha1.TaintPlan) string {
	free, asked := plan.Summary.Leave, 0
	var held []string
	for _, p := range plan.Policies {
		free, asked = free-p.Asked-p.Held, asked+p.Asked
		if p.Held > 0 {
			held = append(held, fmt.Sprintf("%d %s held by policy %s", p.Held, are(p.Held), p.Name))
		}
	}
	if asked == 0 && len(held) == 0 {
		return ""
	}
	var parts []string
	if free > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", free, map[bool]string{true: "leaves", false: "leave"}[free == 1]))
	}
	if asked > 0 {
		parts = append(parts, fmt.Sprintf("%d %s asked about", asked, are(asked)))
	}
	return ": " + strings.Join(slices.Concat(parts, held), ", ")
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// unasked says whether evictions ask PodDisruptionBudgets.
func unasked(plan *cliv1alpha1.TaintPlan) string {
	asks := func(pod cliv1alpha1.PlannedPod) bool {
		return pod.Answer != nil && (pod.Answer.Says == cliv1alpha1.PolicyAsk ||
			slices.Contains([]policy.Why{policy.Budget, policy.SeveralBudgets}, policy.Why(pod.Answer.Reason)))
	}
	if slices.ContainsFunc(plan.Pods, asks) {
		return "evictions by taint ask it only where a policy says so, until the deadline of the policy"
	}
	return "evictions by taint do not ask it"
}
