// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// workload is an owner of pods that leave, with the nodes of its replicas before and after the plan.
type workload struct {
	owner         cliv1alpha1.Owner
	namespace     string
	before, after []string
	leaving       []*cliv1alpha1.PlannedPod
	pod           *corev1.Pod // one of them
	known         bool        // each of its successors has a node or fits none; there is no bound
}

type workloadKey struct {
	namespace string
	owner     cliv1alpha1.Owner
}

// WarnOfSpread warns of workloads that were in several zones and would be in one. It also warns of workloads that would
// be spread less evenly than they request, where the scheduler allows that (ScheduleAnyway).
func WarnOfSpread(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster) {
	nodes := map[string]*corev1.Node{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = node
	}
	for _, w := range workloadsOf(plan, cluster) {
		if !w.known || w.pod == nil || w.owner.Kind == daemonSet {
			continue
		}
		for _, warning := range w.warnings(nodes) {
			for _, pod := range w.leaving {
				pod.WhereTo.Warnings = append(pod.WhereTo.Warnings, warning)
			}
		}
	}
}

// workloadsOf returns the workloads of the pods that leave and have successors.
func workloadsOf(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster) map[workloadKey]*workload {
	all := map[workloadKey]*workload{}
	leaving := map[types.UID]bool{}
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		leaving[pod.UID] = pod.WhereTo != nil
		if pod.WhereTo == nil || pod.WhereTo.NoSuccessor || pod.Owner == nil {
			continue
		}
		key := workloadKey{pod.Namespace, *pod.Owner}
		if all[key] == nil {
			all[key] = &workload{owner: key.owner, namespace: key.namespace, known: true}
		}
		all[key].leave(pod)
	}
	for _, pod := range cluster.Pods {
		if owner := cluster.Owner(pod); owner != nil && holdsNode(pod) {
			if w := all[workloadKey{pod.Namespace, *owner}]; w != nil {
				w.has(pod, leaving[pod.UID])
			}
		}
	}
	return all
}

// has adds a pod of the workload as it is before the plan.
func (w *workload) has(pod *corev1.Pod, leaves bool) {
	w.before = append(w.before, pod.Spec.NodeName)
	switch {
	case !leaves:
		w.after = append(w.after, pod.Spec.NodeName)
	case w.pod == nil || pod.UID == w.leaving[0].UID:
		w.pod = pod
	}
}

func (w *workload) leave(pod *cliv1alpha1.PlannedPod) {
	w.leaving = append(w.leaving, pod)
	w.known = w.known && !pod.WhereTo.Bound && pod.WhereTo.Reason == ""
	if node := pod.WhereTo.Node; node != "" {
		w.after = append(w.after, node)
	}
}

func holdsNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !state.IsOver(pod)
}

func (w *workload) warnings(nodes map[string]*corev1.Node) []cliv1alpha1.PlacementWarning {
	var all []cliv1alpha1.PlacementWarning
	before, after := domains(w.before, nodes, corev1.LabelTopologyZone), domains(w.after, nodes, corev1.LabelTopologyZone)
	if len(before) > 1 && len(after) == 1 && len(w.after) > 1 {
		for zone := range after {
			all = append(all, cliv1alpha1.PlacementWarning{Type: cliv1alpha1.WarningZoneSpread, Message: fmt.Sprintf(
				"Zone spread broken: the %d replicas of %s %s/%s would all be in zone %s, and are in %d zones now.",
				len(w.after), w.owner.Kind, w.namespace, w.owner.Name, zone, len(before))})
		}
	}
	for _, constraint := range w.pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.ScheduleAnyway {
			continue // a filter guarantees it
		}
		key := constraint.TopologyKey
		if was, is := w.skew(w.before, nodes, key), w.skew(w.after, nodes, key); is > int(constraint.MaxSkew) && is > was {
			all = append(all, cliv1alpha1.PlacementWarning{Type: cliv1alpha1.WarningSkew, Message: fmt.Sprintf(
				"The replicas of %s %s/%s would be spread over %s with a skew of %d, more than its maxSkew of %d.",
				w.owner.Kind, w.namespace, w.owner.Name, key, is, constraint.MaxSkew)})
		}
	}
	return all
}

// domains counts nodes by the value of a label. Nodes without the label do not count.
func domains(names []string, nodes map[string]*corev1.Node, key string) map[string]int {
	counts := map[string]int{}
	for _, name := range names {
		if node := nodes[name]; node != nil && node.Labels[key] != "" {
			counts[node.Labels[key]]++
		}
	}
	return counts
}

// skew returns the difference between the replicas of the fullest and the emptiest domain, among the domains with nodes
// that the workload selects.
func (w *workload) skew(names []string, nodes map[string]*corev1.Node, key string) int {
	counts := domains(names, nodes, key)
	required := nodeaffinity.GetRequiredNodeAffinity(w.pod)
	for _, node := range nodes {
		domain := node.Labels[key]
		if _, counted := counts[domain]; domain == "" || counted {
			continue
		}
		if matches, err := required.Match(node); err == nil && matches {
			counts[domain] = 0
		}
	}
	least, most := -1, 0
	for _, n := range counts {
		if most = max(most, n); least < 0 || n < least {
			least = n
		}
	}
	return most - max(least, 0)
}
