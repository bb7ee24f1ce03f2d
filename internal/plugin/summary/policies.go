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
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Policies says what EvictionPolicies do about the pods that are due, which breakers would trip, and how long a pace
// takes.
func Policies(plan *cliv1alpha1.TaintPlan) []string {
	if len(plan.Policies) == 0 {
		return nil
	}
	var lines []string
	if plan.Summary.Leave > 0 {
		lines = append(lines, objections(plan))
	}
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

// objections counts the pods that are due by what the policies say of them then.
func objections(plan *cliv1alpha1.TaintPlan) string {
	held, asked := 0, 0
	var by []string
	for _, p := range plan.Policies {
		asked, held = asked+p.Asked, held+p.Held
		if p.Held > 0 {
			by = append(by, fmt.Sprintf("%d %s held by policy %s", p.Held, are(p.Held), p.Name))
		}
	}
	leave := plan.Summary.Leave
	var parts []string
	if free := leave - held - asked; free > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", free, map[bool]string{true: "leaves", false: "leave"}[free == 1]))
	}
	if asked > 0 {
		parts = append(parts, fmt.Sprintf("%d %s asked about", asked, are(asked)))
	}
	due := "due"
	if plan.Summary.AtOnce == leave {
		due = "due at once"
	}
	return fmt.Sprintf("%s %s %s: %s.", sentence.Counted(leave, "pod"), are(leave), due,
		strings.Join(slices.Concat(parts, by), ", "))
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
		return "evictions by taint ask it only where a policy says so"
	}
	return "evictions by taint do not ask it"
}
