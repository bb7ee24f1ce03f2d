// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// mostSmallest is how many of the smallest changes are listed.
const mostSmallest = 3

// explainPending says which nodes refuse a pod that has no node yet, and what would make them take it.
func (s *Subject) explainPending(e *cliv1alpha1.Explanation) {
	nodes := s.candidates()
	if len(nodes) < len(s.Nodes) {
		e.Notes = append(e.Notes, "Its node affinity names the nodes that it can go to, as for pods of a DaemonSet, so only these are listed.")
	}
	for _, group := range byTaints(nodes) {
		e.NodeClasses = append(e.NodeClasses, s.class(group))
	}
	slices.SortStableFunc(e.NodeClasses, func(a, b cliv1alpha1.NodeClass) int {
		return cmp.Or(
			cmp.Compare(min(len(b.Refuse), 1), min(len(a.Refuse), 1)),
			cmp.Compare(len(b.Nodes), len(a.Nodes)),
			cmp.Compare(strings.Join(a.Taints, ","), strings.Join(b.Taints, ",")))
	})
	e.Changes = changesOfClasses(e.NodeClasses)
	e.Notes = append(e.Notes, s.schedulerSays()...)
}

// candidates are the nodes that a pod's node affinity names, or all nodes if it names none.
func (s *Subject) candidates() []*corev1.Node {
	names := namedByAffinity(s.Pod)
	if names == nil {
		return s.Nodes
	}
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(node *corev1.Node) bool {
		return !slices.Contains(names, node.Name)
	})
}

// namedByAffinity returns the names of nodes in a required node affinity. It is nil if any of its terms names no node.
func namedByAffinity(pod *corev1.Pod) []string {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	var names []string
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchFields, func(field corev1.NodeSelectorRequirement) bool {
			return field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn
		})
		if i < 0 {
			return nil
		}
		names = append(names, term.MatchFields[i].Values...)
	}
	return names
}

// group is nodes with the same taints.
type group struct {
	taints []corev1.Taint
	nodes  []string
}

// byTaints groups nodes with the same taints, sorted by the names of the nodes.
func byTaints(nodes []*corev1.Node) []group {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var groups []group
	known := map[string]int{}
	for _, node := range nodes {
		taints := schedulingTaints(node)
		key := strings.Join(state.FormatAll(taints), ",")
		if _, ok := known[key]; !ok {
			known[key] = len(groups)
			groups = append(groups, group{taints: taints})
		}
		groups[known[key]].nodes = append(groups[known[key]].nodes, node.Name)
	}
	return groups
}

// schedulingTaints returns the taints of a node, sorted. A cordoned node has the taint for unschedulable nodes even
// before the node-lifecycle controller sets it, because the scheduler refuses the node in the same way.
func schedulingTaints(node *corev1.Node) []corev1.Taint {
	all := slices.Clone(node.Spec.Taints)
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	saysSo := func(taint corev1.Taint) bool { return taint.MatchTaint(&cordoned) }
	if node.Spec.Unschedulable && !slices.ContainsFunc(all, saysSo) {
		all = append(all, cordoned)
	}
	slices.SortFunc(all, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return all
}

// class says how a pod fares on nodes with the same taints.
func (s *Subject) class(group group) cliv1alpha1.NodeClass {
	class := cliv1alpha1.NodeClass{Taints: state.FormatAll(group.taints), Nodes: group.nodes}
	for i := range group.taints {
		if taint, refused := state.Rule.Matcher.Untolerated(group.taints[i:i+1], s.Pod.Spec.Tolerations); refused {
			class.Refuse = append(class.Refuse, taints.Format(taint))
			class.Missing = append(class.Missing, tolerationOf(taint))
		}
	}
	// The seconds of a pod that is bound now start now, even if the taints are older.
	var onNode []verdict.Taint
	for _, taint := range taints.NoExecute(group.taints) {
		onNode = append(onNode, verdict.Taint{Taint: taint, Since: s.At})
	}
	decided := state.Rule.Decide(verdict.Pod{Tolerations: s.Pod.Spec.Tolerations, Bound: s.At}, onNode)
	if len(class.Refuse) == 0 && decided.Leaves && decided.Toleration != nil {
		class.LeavesAfterSeconds = new(max(*decided.Toleration.TolerationSeconds, 0))
	}
	return class
}

// tolerationOf returns the narrowest toleration that matches a taint.
func tolerationOf(taint corev1.Taint) corev1.Toleration {
	if taint.Value == "" {
		return corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect}
	}
	return corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
}

// changesOfClasses returns the changes of a pod that make most nodes take it with the fewest tolerations.
func changesOfClasses(classes []cliv1alpha1.NodeClass) []cliv1alpha1.SmallestChange {
	var changes []cliv1alpha1.SmallestChange
	for i := range classes {
		if class := &classes[i]; len(class.Missing) > 0 {
			changes = append(changes, cliv1alpha1.SmallestChange{
				What:        fmt.Sprintf("Add tolerations for %s.", enumerate(class.Refuse)),
				Tolerations: class.Missing, Nodes: len(class.Nodes),
			})
			if len(class.Missing) == 1 {
				changes[len(changes)-1].What = fmt.Sprintf("Add a toleration for %s.", class.Refuse[0])
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b cliv1alpha1.SmallestChange) int {
		return cmp.Or(cmp.Compare(len(a.Tolerations), len(b.Tolerations)), cmp.Compare(b.Nodes, a.Nodes))
	})
	return changes[:min(len(changes), mostSmallest)]
}

// schedulerSays returns other reasons why a pod has no node.
func (s *Subject) schedulerSays() []string {
	notes := []string{"This considers only taints. The scheduler also considers resources, node selector, affinity, spread, volumes and ports."}
	if len(s.Pod.Spec.SchedulingGates) > 0 {
		notes = append(notes, fmt.Sprintf("The scheduler ignores the pod until %s gone.", gatesOf(s.Pod)))
	}
	for i := range s.Pod.Status.Conditions {
		condition := &s.Pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Message != "" {
			notes = append(notes, fmt.Sprintf("The scheduler says: %s", condition.Message))
		}
	}
	return notes
}

func gatesOf(pod *corev1.Pod) string {
	var names []string
	for _, gate := range pod.Spec.SchedulingGates {
		names = append(names, gate.Name)
	}
	if len(names) == 1 {
		return "its scheduling gate " + names[0] + " is"
	}
	return "its scheduling gates " + enumerate(names) + " are"
}

// enumerate joins names for use in a sentence.
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
