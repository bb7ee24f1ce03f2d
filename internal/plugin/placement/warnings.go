// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// warnings says what to look at in an answer.
func (r *Room) warnings(a Answer, from string, at time.Time) []cliv1alpha1.PlacementWarning {
	var all []cliv1alpha1.PlacementWarning
	warn := func(kind cliv1alpha1.PlacementWarningType, message string) {
		all = append(all, cliv1alpha1.PlacementWarning{Type: kind, Message: message})
	}
	nodes := r.byName()
	if r.again == nil {
		r.again = departuresOf(nodes, at)
	}
	if a.Why != "" {
		warn(cliv1alpha1.WarningNowhere, a.Why)
	}
	if message := r.again.message(a, from); message != "" {
		warn(cliv1alpha1.WarningOutAgain, message)
	}
	return append(all, r.storage.warnings(a.successor, nodes, a.said)...)
}

// departures are the NoExecute taints of nodes after the plan. A pod that comes to such a node may leave it again.
type departures struct {
	taints map[string][]verdict.Taint
	at     time.Time
}

func departuresOf(nodes []*corev1.Node, at time.Time) *departures {
	d := &departures{taints: map[string][]verdict.Taint{}, at: at}
	for _, node := range nodes {
		if len(taints.NoExecute(node.Spec.Taints)) > 0 {
			d.taints[node.Name] = state.Tainted(node, at)
		}
	}
	return d
}

// message says that a successor would come to a node and leave it again. It is empty if none of the nodes that fit is
// such a node.
func (d *departures) message(a Answer, from string) string {
	if a.group.again == nil {
		a.group.again = d.of(a.successor)
	}
	if len(a.group.again) == 0 {
		return ""
	}
	if v, ok := a.group.again[a.Node]; ok {
		return d.sentence("goes", a.Node, from, v)
	}
	for _, place := range a.said.fits {
		if v, ok := a.group.again[a.said.name(place)]; ok {
			return d.sentence("may go", a.said.name(place), from, v)
		}
	}
	return ""
}

func (d *departures) sentence(goes, node, from string, v verdict.Verdict) string {
	to := "to "
	if node == from {
		to = "back to "
	}
	return fmt.Sprintf("It %s %s and must leave again after %s: it tolerates %s only for a while.",
		goes, to+node, duration.HumanDuration(v.Due.Sub(d.at)), taints.Format(v.Taint.Taint))
}

// of returns the nodes that may take a pod but would make it leave again, with the controller's own verdict, as if the
// pod were bound at once.
func (d *departures) of(pod *corev1.Pod) map[string]verdict.Verdict {
	all := map[string]verdict.Verdict{}
	for node, tainted := range d.taints {
		v := state.Rule.Decide(verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: d.at}, tainted)
		if v.Leaves && v.Toleration != nil {
			all[node] = v
		}
	}
	return all
}

// Notes says what the scheduler is not asked about the successors of pods, and how far its answers can be trusted. Late
// is how many fit no node at first, and bounds of how many only a bound is known.
func Notes(cluster *state.Cluster, pods []*corev1.Pod, late, bounds int) []string {
	notes, known := []string{notAskedInWords}, storageOf(cluster)
	note := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, n))
		}
	}
	count := func(is func(*corev1.Pod) bool) (n int) {
		for _, pod := range pods {
			if is(pod) {
				n++
			}
		}
		return n
	}
	note(count(func(pod *corev1.Pod) bool { return len(known.knownOf(pod)) < len(pod.Spec.Volumes) }),
		"Pods that leave with volumes that are unknown, or created with the pod: %d. Their placement ignores these volumes.")
	note(count(func(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }),
		"Pods that leave with resource claims (DRA): %d. Their placement ignores these claims.")
	note(count(func(pod *corev1.Pod) bool {
		return pod.Spec.SchedulerName != "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName
	}), "Pods that leave and name another scheduler: %d. Their placement shows what the default scheduler would do.")
	note(late, "Pods that fit no node at first, but fit one after other pods are placed or leave: %d.")
	note(bounds, "Pods for which only an upper bound on the number of nodes that fit is known, because the run time is limited: %d. Their nodes would have taken an identical pod that left earlier, but pods placed since may have filled some.")
	return notes
}
