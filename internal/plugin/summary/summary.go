// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package summary describes a plan in a few lines: how many pods leave, what is lost, and where pods would go. Plans
// and pages begin with them, and taint shows them before it asks for confirmation.
package summary

import (
	"fmt"
	"slices"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Lines is the beginning of a plan, before every pod: the answer, what is lost, and what is not known.
func Lines(plan *cliv1alpha1.TaintPlan) []string {
	lines := slices.Concat(
		[]string{Answer(plan)}, where(plan), Losses(plan), Policies(plan), whereToLines(plan))
	for _, note := range output.Merged(plan.Notes) {
		lines = append(lines, "Note: "+note)
	}
	return lines
}

// where names the cluster of a plan. It is empty for files.
func where(plan *cliv1alpha1.TaintPlan) []string {
	if name := Cluster(plan); name != "" {
		return []string{"This plan is for cluster " + name + "."}
	}
	return nil
}

// Cluster names the cluster of a plan as its users do. It is empty for files.
func Cluster(of *cliv1alpha1.TaintPlan) string {
	return state.Location{Context: of.Context, Cluster: of.Cluster, Server: of.Server}.String()
}

// Answer returns the first line.
func Answer(plan *cliv1alpha1.TaintPlan) string { return output.Answer(plan.EvictedBy, answer(plan)) }

func answer(plan *cliv1alpha1.TaintPlan) string {
	s := plan.Summary
	pods, nodes := sentence.Counted(s.Pods, "pod"), sentence.Counted(s.Nodes, "node")
	switch {
	case s.Pods == 0:
		return fmt.Sprintf("No pod leaves: there are no pods on %s.", nodes)
	case s.Leave == 0:
		return fmt.Sprintf("No pod leaves: %s on %s may stay.", pods, nodes)
	}
	do, objections := leave(s.Leave), objections(plan)
	if objections != "" {
		do = are(s.Leave) + " due"
	}
	parts := []string{fmt.Sprintf("%d of %s on %s %s", s.Leave, pods, nodes, do)}
	switch later := s.Leave - s.AtOnce; {
	case later == 0 && s.Leave == 1:
		parts = append(parts, "at once")
	case later == 0:
		parts = append(parts, "all of them at once")
	case s.AtOnce == 0:
		parts = append(parts, sentence.Agree(s.Leave, "in ", "the last in ")+output.Relative(plan.At.Time, s.Last.Time))
	default:
		parts = append(parts, fmt.Sprintf("%d at once", s.AtOnce),
			fmt.Sprintf("%d more within %s", later, output.Relative(plan.At.Time, s.Last.Time)))
	}
	return strings.Join(parts, ", ") + objections + "."
}

// most is how many losses or budgets are listed.
const most = 10

// Losses says what is lost in addition to pods.
func Losses(plan *cliv1alpha1.TaintPlan) []string {
	var lost, apart, emptied []string
	bare, local := podsOf(plan, func(pod *cliv1alpha1.PlannedPod) bool { return pod.Lost }),
		podsOf(plan, func(pod *cliv1alpha1.PlannedPod) bool { return pod.LocalData })
	for _, workload := range plan.Workloads {
		name := fmt.Sprintf("%s %s/%s", workload.Kind, workload.Namespace, workload.Name)
		switch {
		case workload.Lowest == 0:
			lost = append(lost, fmt.Sprintf("%s loses every replica: %d of %d%s.",
				name, workload.Leave, workload.Replicas, elsewhere(workload.Replicas-workload.Leave)))
		case workload.Leave == workload.Replicas:
			apart = append(apart, fmt.Sprintf("%s loses all %d replicas one after the other: at least %d %s ready at any time.",
				name, workload.Replicas, workload.Lowest, are(workload.Lowest)))
		}
	}
	var lines []string
	if len(bare) > 0 {
		lines = append(lines, fmt.Sprintf("%s no controller, so nothing replaces %s: %s.",
			sentence.Counted(len(bare), "pod")+sentence.Agree(len(bare), " that leaves has", " that leave have"),
			sentence.Agree(len(bare), "it", "them"), sentence.Some(bare)))
	}
	lines = slices.Concat(lines, first(lost, "workload", "loses every replica", "lose every replica"),
		first(apart, "workload", "loses its replicas one after the other", "lose their replicas one after the other"),
		budgets(plan))
	if len(local) > 0 {
		lines = append(lines, fmt.Sprintf("%s the data in %s emptyDir volumes: %s.",
			sentence.Counted(len(local), "pod")+sentence.Agree(len(local), " loses", " lose"),
			sentence.Agree(len(local), "its", "their"), sentence.Some(local)))
	}
	for _, node := range plan.Nodes {
		if node.Emptied {
			emptied = append(emptied, node.Name)
		}
	}
	if len(emptied) > 0 {
		count := sentence.Counted(len(emptied), "node")
		lines = append(lines, fmt.Sprintf("%s emptied: %s.", count, sentence.Some(emptied)))
	}
	return lines
}

// elsewhere says how many replicas leave nodes that the plan does not change.
func elsewhere(replicas int) string {
	if replicas == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d that must leave %s", replicas, sentence.Agree(replicas, "another node", "other nodes"))
}

// podsOf names some of the pods of a plan.
func podsOf(plan *cliv1alpha1.TaintPlan, which func(*cliv1alpha1.PlannedPod) bool) (names []string) {
	for i := range plan.Pods {
		if pod := &plan.Pods[i]; which(pod) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	return names
}

// Found returns what a plan has that --fail-on can ask for.
func Found(plan *cliv1alpha1.TaintPlan) map[string]string {
	found := map[string]string{}
	add := func(value string, n int, what, one, more string) {
		switch {
		case n == 1:
			found[value] = "1 " + what + " " + one
		case n > 1:
			found[value] = fmt.Sprintf("%d %ss %s", n, what, more)
		}
	}
	add(command.LostPod, plan.Summary.PodsLost, "pod", "is replaced by no controller", "are replaced by no controller")
	add(command.LostWorkload, plan.Summary.WorkloadsLost, "workload", "loses every replica", "lose every replica")
	add(command.Budget, plan.Summary.BudgetsBreached, "PodDisruptionBudget", "is overrun", "are overrun")
	add(command.Nowhere, plan.Summary.Nowhere, "pod", "fits no node", "fit no node")
	if AsksWhereTo(plan) && uncertain(plan) > 0 {
		what := fmt.Sprintf("%s may fit no node", sentence.Counted(uncertain(plan), "pod"))
		found[command.Nowhere] = strings.TrimPrefix(found[command.Nowhere]+", "+what, ", ")
	}
	return found
}

// first returns the first lines, and says how many more of their kind there are.
func first(lines []string, what, does, do string) []string {
	more := len(lines) - most
	if more <= 0 {
		return lines
	}
	if more > 1 {
		what, does = what+"s", do
	}
	return append(lines[:most:most], fmt.Sprintf("%d more %s %s.", more, what, does))
}

// budgets says which PodDisruptionBudgets are overrun, and which are asked for more than they allow.
func budgets(plan *cliv1alpha1.TaintPlan) []string {
	var overrun, asked []string
	for _, budget := range plan.Budgets {
		allows := fmt.Sprintf("PodDisruptionBudget %s/%s allows %s",
			budget.Namespace, budget.Name, sentence.Counted(int(budget.Allowed), "disruption"))
		if budget.Breach > 0 {
			overrun = append(overrun, fmt.Sprintf("%s, but %s.", allows, missing(budget)))
		}
		if budget.Asked > int(budget.Allowed) {
			asked = append(asked, fmt.Sprintf("%s, so it delays evictions: EvictionPolicies use the Eviction API for %s.",
				allows, sentence.Counted(budget.Asked, "pod")))
		}
	}
	lines := first(overrun, "PodDisruptionBudget", "is overrun", "are overrun")
	if len(overrun) > 0 {
		lines = append(lines, "kubectl drain respects budgets; taints do not"+unlessAsked(plan)+".")
	}
	const tooFew = " too few disruptions for EvictionPolicies"
	asked = first(asked, "PodDisruptionBudget", "allows"+tooFew, "allow"+tooFew)
	return slices.Concat(lines, asked)
}

// missing says how many pods of an overrun budget leave, and how many of them are missing at one time if it is not all.
func missing(budget cliv1alpha1.PlannedBudget) string {
	if most := int(budget.Allowed) + budget.Breach; most < budget.Leave {
		return fmt.Sprintf("%d of its %d pods that leave %s missing at one time", most, budget.Leave, are(most))
	}
	return fmt.Sprintf("%d of its pods %s", budget.Leave, leave(budget.Leave))
}

// unlessAsked is the exception to the rule that evictions ignore budgets.
func unlessAsked(plan *cliv1alpha1.TaintPlan) string {
	if slices.ContainsFunc(plan.Budgets, func(budget cliv1alpha1.PlannedBudget) bool { return budget.Asked > 0 }) {
		return ", except where an EvictionPolicy uses the Eviction API"
	}
	return ""
}
