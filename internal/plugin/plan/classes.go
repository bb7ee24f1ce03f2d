// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// mostSmallest is how many of the smallest changes are named.
const mostSmallest = 3

// explainPending says which nodes refuse a pod that has none yet, and what would make them take it.
func (s *Subject) explainPending(e *cliv1alpha1.Explanation) {
	nodes := s.candidates()
	if len(nodes) < len(s.Nodes) {
		e.Notes = append(e.Notes, "Its node affinity names the nodes that it can go to, as the DaemonSet controller does: only these are listed.")
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

// candidates are the nodes that a pod's node affinity names, where it names some; else all.
func (s *Subject) candidates() []*corev1.Node {
	names := namedByAffinity(s.Pod)
	if names == nil {
		return s.Nodes
	}
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(node *corev1.Node) bool {
		return !slices.Contains(names, node.Name)
	})
}

// namedByAffinity returns the names of nodes that every term of a required node affinity gives; nil if one gives none.
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

// group is nodes with equal taints.
type group struct {
	taints []corev1.Taint
	nodes  []string
}

// byTaints groups nodes by equal taints, in the order of the nodes' names.
func byTaints(nodes []*corev1.Node) []group {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var groups []group
	known := map[string]int{}
	for _, node := range nodes {
		taints := schedulingTaints(node)
		key := strings.Join(formatAll(taints), ",")
		if _, ok := known[key]; !ok {
			known[key] = len(groups)
			groups = append(groups, group{taints: taints})
		}
		groups[known[key]].nodes = append(groups[known[key]].nodes, node.Name)
	}
	return groups
}

// schedulingTaints returns the taints of a node, sorted. A cordoned node has the one that says so, even before the
// node-lifecycle controller sets it: the scheduler refuses it in the same way.
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

// class says how nodes with equal taints take the pod.
func (s *Subject) class(group group) cliv1alpha1.NodeClass {
	class := cliv1alpha1.NodeClass{Taints: formatAll(group.taints), Nodes: group.nodes}
	for i := range group.taints {
		if taint, refused := Rule.Matcher.Untolerated(group.taints[i:i+1], s.Pod.Spec.Tolerations); refused {
			class.Refuse = append(class.Refuse, taints.Format(taint))
			class.Missing = append(class.Missing, tolerationOf(taint))
		}
	}
	// A pod that is bound now counts from now, whatever the taints were before.
	var onNode []verdict.Taint
	for _, taint := range taints.NoExecute(group.taints) {
		onNode = append(onNode, verdict.Taint{Taint: taint, Since: s.At})
	}
	decided := Rule.Decide(verdict.Pod{Tolerations: s.Pod.Spec.Tolerations, Bound: s.At}, onNode)
	if len(class.Refuse) == 0 && decided.Leaves && decided.Toleration != nil {
		class.LeavesAfterSeconds = new(max(*decided.Toleration.TolerationSeconds, 0))
	}
	return class
}

// tolerationOf returns the narrowest toleration of a taint.
func tolerationOf(taint corev1.Taint) corev1.Toleration {
	if taint.Value == "" {
		return corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect}
	}
	return corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
}

// changesOfClasses returns the changes of a pod that make most nodes take it for the fewest tolerations.
func changesOfClasses(classes []cliv1alpha1.NodeClass) []cliv1alpha1.SmallestChange {
	var changes []cliv1alpha1.SmallestChange
	for i := range classes {
		if class := &classes[i]; len(class.Missing) > 0 {
			changes = append(changes, cliv1alpha1.SmallestChange{
				What:        fmt.Sprintf("Add tolerations of %s.", enumerate(class.Refuse)),
				Tolerations: class.Missing, Nodes: len(class.Nodes),
			})
			if len(class.Missing) == 1 {
				changes[len(changes)-1].What = fmt.Sprintf("Add a toleration of %s.", class.Refuse[0])
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b cliv1alpha1.SmallestChange) int {
		return cmp.Or(cmp.Compare(len(a.Tolerations), len(b.Tolerations)), cmp.Compare(b.Nodes, a.Nodes))
	})
	return changes[:min(len(changes), mostSmallest)]
}

// schedulerSays returns what else is known about why a pod has no node.
func (s *Subject) schedulerSays() []string {
	notes := []string{"Taints alone are weighed here. The scheduler asks more: resources, node selector, affinity, spread, volumes and ports."}
	if len(s.Pod.Spec.SchedulingGates) > 0 {
		notes = append(notes, fmt.Sprintf("The scheduler is not asked at all before %s gone.", gatesOf(s.Pod)))
	}
	for i := range s.Pod.Status.Conditions {
		condition := &s.Pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Message != "" {
			notes = append(notes, fmt.Sprintf("The scheduler itself says: %s", condition.Message))
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

// enumerate joins names as in a sentence.
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
