// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// mostSmallest is how many of the smallest changes are listed.
const mostSmallest = 3

// class is nodes with the same taints, and those of the taints that keep the pod away.
type class struct {
	taints, refuse []corev1.Taint
	nodes          []string
}

// explainPending says which nodes refuse a pod that has no node yet, and what would make them take it: the changes with
// the fewest parts come first, then those for the most nodes.
func (s *Subject) explainPending(e *cliv1alpha1.Explanation) {
	allows := nodeaffinity.GetRequiredNodeAffinity(s.Pod)
	nodes := slices.DeleteFunc(slices.Clone(s.Nodes), func(node *corev1.Node) bool {
		matches, err := allows.Match(node)
		return !matches && err == nil
	})
	if len(nodes) < len(s.Nodes) {
		e.Notes = append(e.Notes, fmt.Sprintf("Its node selector and node affinity allow %d of %s, so only these are listed.", len(nodes), sentence.Counted(len(s.Nodes), "node")))
	}
	classes := s.classesOf(nodes)
	slices.SortStableFunc(classes, func(a, b *class) int {
		return cmp.Or(cmp.Compare(min(len(b.refuse), 1), min(len(a.refuse), 1)), cmp.Compare(len(b.nodes), len(a.nodes)))
	})
	for _, class := range classes {
		e.NodeClasses = append(e.NodeClasses, s.explained(class))
	}
	slices.SortStableFunc(classes, func(a, b *class) int {
		return cmp.Or(cmp.Compare(len(a.refuse), len(b.refuse)), cmp.Compare(len(b.nodes), len(a.nodes)))
	})
	for _, class := range classes {
		if len(class.refuse) > 0 && len(e.Changes) < mostSmallest {
			e.Changes = append(e.Changes, s.admitting(class))
		}
	}
	s.noteScheduler(e)
}

// noteScheduler adds other reasons why the pod has no node.
func (s *Subject) noteScheduler(e *cliv1alpha1.Explanation) {
	e.Notes = append(e.Notes, "This considers only taints. The scheduler also considers resources, affinity to pods, spread, volumes and ports.")
	var gates []string
	for _, gate := range s.Pod.Spec.SchedulingGates {
		gates = append(gates, gate.Name)
	}
	if len(gates) > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("The scheduler ignores the pod until these scheduling gates are gone: %s.", sentence.Enumerate(gates)))
	}
	for i := range s.Pod.Status.Conditions {
		condition := &s.Pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Message != "" {
			e.Notes = append(e.Notes, "The scheduler says: "+condition.Message)
		}
	}
}

// cordon is the taint of unschedulable nodes.
var cordon = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// classesOf groups nodes with the same taints, sorted by these. A cordoned node has the taint for unschedulable nodes
// even before the node-lifecycle controller sets it, because the scheduler refuses the node in the same way.
func (s *Subject) classesOf(nodes []*corev1.Node) (classes []*class) {
	known := map[string]*class{}
	byName := func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) }
	for _, node := range slices.SortedFunc(slices.Values(nodes), byName) {
		all := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(taint corev1.Taint) bool {
			return node.Spec.Unschedulable && taint.MatchTaint(&cordon)
		})
		if node.Spec.Unschedulable {
			all = append(all, cordon)
		}
		slices.SortFunc(all, func(a, b corev1.Taint) int { return cmp.Compare(taints.Format(a), taints.Format(b)) })
		key := strings.Join(state.FormatAll(all), ",")
		if known[key] == nil {
			known[key] = &class{taints: all, refuse: slices.DeleteFunc(slices.Clone(all), func(taint corev1.Taint) bool {
				_, refused := state.Rule.Matcher.Untolerated([]corev1.Taint{taint}, s.Pod.Spec.Tolerations)
				return !refused
			})}
			classes = append(classes, known[key])
		}
		known[key].nodes = append(known[key].nodes, node.Name)
	}
	slices.SortFunc(classes, func(a, b *class) int {
		return slices.Compare(state.FormatAll(a.taints), state.FormatAll(b.taints))
	})
	return classes
}

// explained says how the pod fares on the nodes of a class.
func (s *Subject) explained(is *class) cliv1alpha1.NodeClass {
	explained := cliv1alpha1.NodeClass{Taints: state.FormatAll(is.taints), Nodes: is.nodes}
	for _, taint := range is.refuse {
		explained.Refuse = append(explained.Refuse, taints.Format(taint))
		explained.Missing = append(explained.Missing, tolerationOf(taint))
	}
	// The seconds of a pod that is bound now start now, even if the taints are older.
	var onNode []verdict.Taint
	for _, taint := range taints.NoExecute(is.taints) {
		onNode = append(onNode, verdict.Taint{Taint: taint, Since: s.At})
	}
	decided := state.Rule.Decide(verdict.Pod{Tolerations: s.Pod.Spec.Tolerations, Bound: s.At}, onNode)
	if len(is.refuse) == 0 && decided.Leaves && decided.Toleration != nil {
		explained.LeavesAfterSeconds = new(max(*decided.Toleration.TolerationSeconds, 0))
	}
	return explained
}

// tolerationOf returns the narrowest toleration that matches a taint.
func tolerationOf(taint corev1.Taint) corev1.Toleration {
	if taint.Value == "" {
		return corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect}
	}
	return corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
}

// admitting returns what makes the nodes of a class take the pod. A taint that says that its node is sick goes when the
// node recovers: a pod that tolerates it starts on a node that cannot run it.
func (s *Subject) admitting(is *class) cliv1alpha1.SmallestChange {
	change := cliv1alpha1.SmallestChange{Nodes: len(is.nodes)}
	var sick, add, parts, commands []string
	older := false
	nodes := sentence.Agree(len(is.nodes), "node ", "nodes ") + sentence.Some(is.nodes)
	for _, taint := range is.refuse {
		switch {
		case readiness.SaysSick(taint.Key):
			sick = append(sick, taints.Format(taint))
		case taint.MatchTaint(&cordon):
			parts = append(parts, "Uncordon "+nodes+".")
			commands = append(commands, "kubectl uncordon "+strings.Join(is.nodes, " "))
		case s.templateTolerates(&taint):
			older = true
		default:
			add = append(add, taints.Format(taint))
			change.Tolerations = append(change.Tolerations, tolerationOf(taint))
		}
	}
	if len(sick) > 0 {
		parts = append(parts, fmt.Sprintf("Bring %s back to health, which ends %s.", nodes, sentence.Enumerate(sick)))
	}
	if older {
		parts, commands = append(parts, recreate), append(commands, s.deletion())
	}
	if len(add) > 0 {
		verb := sentence.Agree(len(add), "Add a toleration for ", "Add tolerations for ")
		parts = append(parts, verb+sentence.Enumerate(add)+".")
	}
	change.What = strings.Join(parts, " ")
	if len(parts) == 1 {
		change.Command = strings.Join(commands, "")
	}
	return change
}
