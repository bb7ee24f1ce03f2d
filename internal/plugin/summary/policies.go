// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Policies says which breakers would trip, how long the evictions take if a policy sets a pace, and what a resume would
// let go.
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
			lines = append(lines, fmt.Sprintf("EvictionPolicy %s sets a pace of %s. It lets %s go %s, at %s.",
				p.Name, p.Pace, sentence.Agree(p.Pods, "the pod", "the last pod"), in(plan, p.LastAt), output.Absolute(p.LastAt.Time)))
		}
	}
	return append(lines, resumed(plan)...)
}

// resumed says what happens after a resume to the pods that pauses and open breakers keep.
func resumed(plan *cliv1alpha1.TaintPlan) []string {
	is := plan.Resumed
	if is == nil {
		return nil
	}
	release := policies.Release{
		Leave: is.Leave, Asked: is.Asked, Late: is.Late, First: is.LateFrom.Duration, Last: is.LateTo.Duration,
	}
	return []string{fmt.Sprintf("Pauses and open breakers keep %s: 'kubectl taintkeeper resume --all' lets %d leave.%s",
		sentence.Counted(is.Pods, "pod"), is.Leave, release.Deadlines())}
}

// objections counts the due pods by the answer of policies. It is empty if no policy keeps one.
func objections(plan *cliv1alpha1.TaintPlan) string {
	free, asked := plan.Summary.Leave, 0
	var held []string
	for _, p := range plan.Policies {
		free, asked = free-p.Asked-p.Held, asked+p.Asked
		if p.Held > 0 {
			held = append(held, fmt.Sprintf("%d %s held by policy %s", p.Held, are(p.Held), p.Name))
		}
	}
	paced := pacedBy(plan)
	if asked == 0 && len(held) == 0 && paced == nil {
		return ""
	}
	var parts []string
	if free > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", free, leave(free))+atPace(paced, free))
	}
	if asked > 0 {
		parts = append(parts, fmt.Sprintf("%d %s if PodDisruptionBudgets allow it", asked, leave(asked)))
	}
	return ": " + strings.Join(slices.Concat(parts, held), ", ")
}

// atPace says that pods leave at the pace of a policy. It is empty if they do not.
func atPace(paced *cliv1alpha1.PlannedPolicy, pods int) string {
	switch {
	case paced == nil:
		return ""
	case paced.Pods < pods:
		return ", some at the pace of policy " + paced.Name
	}
	return " at the pace of policy " + paced.Name
}

// pacedBy returns the slowest policy whose pace lets pods leave after the last one is due, or nil.
func pacedBy(plan *cliv1alpha1.TaintPlan) *cliv1alpha1.PlannedPolicy {
	var slowest *cliv1alpha1.PlannedPolicy
	for i := range plan.Policies {
		p := &plan.Policies[i]
		if p.LastAt == nil || !p.LastAt.After(plan.Summary.Last.Time) || !p.LastAt.After(plan.At.Time) {
			continue
		}
		if slowest == nil || p.LastAt.After(slowest.LastAt.Time) {
			slowest = p
		}
	}
	return slowest
}

func are(n int) string { return sentence.Agree(n, "is", "are") }

func leave(n int) string { return sentence.Agree(n, "leaves", "leave") }

// in formats the time until an instant of a plan.
func in(plan *cliv1alpha1.TaintPlan, at *metav1.MicroTime) string {
	if text := output.Relative(plan.At.Time, at.Time); text != "now" {
		return "in " + text
	}
	return "now"
}
