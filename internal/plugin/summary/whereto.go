// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"fmt"
	"slices"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// AsksWhereTo reports whether a plan says where pods would go.
func AsksWhereTo(plan *cliv1alpha1.TaintPlan) bool {
	return slices.ContainsFunc(plan.Pods, func(pod cliv1alpha1.PlannedPod) bool { return pod.WhereTo != nil })
}

// mostWarned is how many different warnings are printed above a table.
const mostWarned = 10

// whereToLines says how many pods have somewhere to go, and what to look at, with one line for all pods that have the
// same warning.
func whereToLines(plan *cliv1alpha1.TaintPlan) []string {
	if !AsksWhereTo(plan) {
		return nil
	}
	s := plan.Summary
	parts := []string{fmt.Sprintf("%d to a node", s.Placed), fmt.Sprintf("%d nowhere", s.Nowhere)}
	if uncertain := uncertain(plan); uncertain > 0 {
		parts = append(parts, fmt.Sprintf("%d uncertain", uncertain))
	}
	if s.NoSuccessor > 0 {
		parts = append(parts, fmt.Sprintf("%d without a successor", s.NoSuccessor))
	}
	lines := []string{fmt.Sprintf("Where the pods that leave would go: %s.", strings.Join(parts, ", "))}
	if s.LeaveAgain > 0 {
		lines = append(lines, fmt.Sprintf("Of the pods that go to a node, %d must leave it again: %s its NoExecute taints only for a while.",
			s.LeaveAgain, sentence.Agree(s.LeaveAgain, "it tolerates", "they tolerate")))
	}
	if s.Preempted > 0 {
		lines = append(lines, fmt.Sprintf("To make room for them, %s of lower priority %s preempted.",
			sentence.Counted(s.Preempted, "more pod"), sentence.Agree(s.Preempted, "is", "are")))
	}
	remarks := remarksOf(plan)
	for _, remark := range remarks[:min(len(remarks), mostWarned)] {
		lines = append(lines, fmt.Sprintf("%s: %s", sentence.Also(remark.pods), remark.message))
	}
	if more := len(remarks) - mostWarned; more > 0 {
		lines = append(lines, fmt.Sprintf("%s: -o json and -o yaml list all.", sentence.Counted(more, "more warning")))
	}
	return lines
}

// uncertain counts the pods for which it is not certain that a node would take them.
func uncertain(plan *cliv1alpha1.TaintPlan) int {
	s := plan.Summary
	return s.Leave - s.Placed - s.Nowhere - s.NoSuccessor
}

// remark is a warning or reason that some pods share.
type remark struct {
	kind    cliv1alpha1.PlacementWarningType
	message string
	pods    []string
}

// gravest is the order of warnings.
var gravest = []cliv1alpha1.PlacementWarningType{
	cliv1alpha1.WarningNowhere, cliv1alpha1.WarningPreempts, cliv1alpha1.WarningVolume, cliv1alpha1.WarningOutAgain,
	cliv1alpha1.WarningZoneSpread, cliv1alpha1.WarningSkew,
	noAnswer,
}

// noAnswer is the kind of remark that says why there is no answer, or no successor.
const noAnswer cliv1alpha1.PlacementWarningType = ""

// remarksOf returns the warnings of a plan, and the reasons why no node was asked, the gravest first.
func remarksOf(plan *cliv1alpha1.TaintPlan) []*remark {
	var all []*remark
	byMessage := map[string]*remark{}
	add := func(kind cliv1alpha1.PlacementWarningType, message, pod string) {
		if byMessage[message] == nil {
			byMessage[message] = &remark{kind: kind, message: message}
			all = append(all, byMessage[message])
		}
		byMessage[message].pods = append(byMessage[message].pods, pod)
	}
	for _, pod := range plan.Leaving() {
		if pod.WhereTo == nil {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		if pod.WhereTo.Reason != "" {
			add(noAnswer, pod.WhereTo.Reason, name)
		}
		for _, warning := range pod.WhereTo.Warnings {
			add(warning.Type, warning.Message, name)
		}
	}
	slices.SortStableFunc(all, func(a, b *remark) int {
		return slices.Index(gravest, a.kind) - slices.Index(gravest, b.kind)
	})
	return all
}
