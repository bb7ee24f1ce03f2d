// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// warnings says what to look at in an answer. The node is where the successor is placed, and empty if it is not placed.
func (p *placer) warnings(l *leaver, said *answer, node string) []cliv1alpha1.PlacementWarning {
	var all []cliv1alpha1.PlacementWarning
	warn := func(kind cliv1alpha1.PlacementWarningType, message string) {
		all = append(all, cliv1alpha1.PlacementWarning{Type: kind, Message: message})
	}
	if len(said.fits) == 0 {
		warn(cliv1alpha1.WarningNowhere, p.nowhere(l, said))
	}
	if message := p.again.message(l, said, node); message != "" {
		warn(cliv1alpha1.WarningOutAgain, message)
	}
	return append(all, p.storage.warnings(l.successor, p.nodes, said)...)
}

func (p *placer) nowhere(l *leaver, said *answer) string {
	message := nowhere(said)
	if said.resolvable && mayPreempt(l.successor) && ptr.Deref(l.successor.Spec.Priority, 0) > p.lowest {
		message += " It may preempt pods of lower priority."
	}
	return message
}

func mayPreempt(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever
}

// departures are the NoExecute taints of nodes after the plan. A pod that comes to such a node may leave it again.
type departures struct {
	taints map[string][]verdict.Taint
	at     time.Time
}

func departuresOf(nodes []*corev1.Node, at time.Time) departures {
	d := departures{taints: map[string][]verdict.Taint{}, at: at}
	for _, node := range nodes {
		if len(taints.NoExecute(node.Spec.Taints)) > 0 {
			d.taints[node.Name] = state.Tainted(node, at)
		}
	}
	return d
}

// message says that a successor would come to a node and leave it again. It is empty if none of the nodes that fit is
// such a node.
func (d departures) message(l *leaver, said *answer, node string) string {
	if l.group.again == nil {
		l.group.again = d.of(l.successor)
	}
	if len(l.group.again) == 0 {
		return ""
	}
	if v, ok := l.group.again[node]; ok {
		return d.sentence("goes", l, node, v)
	}
	for _, place := range said.fits {
		if v, ok := l.group.again[said.name(place)]; ok {
			return d.sentence("may go", l, said.name(place), v)
		}
	}
	return ""
}

func (d departures) sentence(goes string, l *leaver, node string, v verdict.Verdict) string {
	to := "to "
	if node == l.pod.Spec.NodeName {
		to = "back to "
	}
	return fmt.Sprintf("It %s %s and must leave again after %s: it tolerates %s only for a while.",
		goes, to+node, duration.HumanDuration(v.Due.Sub(d.at)), taints.Format(v.Taint.Taint))
}

// of returns the nodes that may take a pod but would make it leave again, with the controller's own verdict, as if the
// pod were bound at once.
func (d departures) of(pod *corev1.Pod) map[string]verdict.Verdict {
	all := map[string]verdict.Verdict{}
	for node, tainted := range d.taints {
		v := state.Rule.Decide(verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: d.at}, tainted)
		if v.Leaves && v.Toleration != nil {
			all[node] = v
		}
	}
	return all
}

// notes says what was not asked, and how far the answers can be trusted.
func (p *placer) notes(cluster *state.Cluster) []string {
	notes := []string{notAskedInWords}
	note := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, n))
		}
	}
	note(p.unknown, "Pods that leave with volumes that are unknown, or created with the pod: %d. Their placement ignores these volumes.")
	note(p.countIf(func(l *leaver) bool { return len(l.pod.Spec.ResourceClaims) > 0 }), "Pods that leave with resource claims (DRA): %d. Their placement ignores these claims.")
	note(p.countIf(func(l *leaver) bool {
		return l.pod.Spec.SchedulerName != "" && l.pod.Spec.SchedulerName != corev1.DefaultSchedulerName
	}), "Pods that leave and name another scheduler: %d. Their placement shows what the default scheduler would do.")
	note(pending(cluster), "Pods that already wait for a node: %d. The plan does not take into account that they may be placed first.")
	note(p.late, "Pods that fit no node at first, but fit one after other pods are placed or leave: %d.")
	note(p.countIf(func(l *leaver) bool { return l.planned.WhereTo != nil && l.planned.WhereTo.Bound }),
		"Pods for which only an upper bound on the number of nodes that fit is known, because the run time is limited: %d. Their nodes would have taken an identical pod that left earlier, but pods placed since may have filled some.")
	return notes
}

func (p *placer) countIf(is func(*leaver) bool) int {
	n := 0
	for _, l := range p.leavers {
		if l.successor != nil && is(l) {
			n++
		}
	}
	return n
}

func pending(cluster *state.Cluster) int {
	n := 0
	for _, pod := range cluster.Pods {
		if pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && !state.IsOver(pod) {
			n++
		}
	}
	return n
}
