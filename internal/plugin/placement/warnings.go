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
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// warnings says what to look at in an answer. The node is the one on which the successor is placed, empty if it is not.
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

// departures are the NoExecute taints of nodes after the plan, by node: a pod that comes there may have to leave again.
type departures struct {
	taints map[string][]verdict.Taint
	at     time.Time
}

func departuresOf(nodes []*corev1.Node, at time.Time) departures {
	d := departures{taints: map[string][]verdict.Taint{}, at: at}
	for _, node := range nodes {
		if len(taints.NoExecute(node.Spec.Taints)) > 0 {
			d.taints[node.Name] = plan.Tainted(node, at)
		}
	}
	return d
}

// message says that a successor would come to a node and leave it again, empty if there is no such node among those
// that fit.
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
	return fmt.Sprintf("It %s %s and out again after %s: it tolerates %s for a while only.",
		goes, to+node, duration.HumanDuration(v.Due.Sub(d.at)), taints.Format(v.Taint.Taint))
}

// of returns the nodes that a pod would have to leave although it may come there, with the controller's own verdict, as
// if it were bound at once.
func (d departures) of(pod *corev1.Pod) map[string]verdict.Verdict {
	all := map[string]verdict.Verdict{}
	for node, tainted := range d.taints {
		v := plan.Rule.Decide(verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: d.at}, tainted)
		if v.Leaves && v.Toleration != nil {
			all[node] = v
		}
	}
	return all
}

// notes says what was not asked, and how far the answers reach.
func (p *placer) notes(cluster *plan.Cluster) []string {
	notes := []string{notAskedInWords}
	note := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, n))
		}
	}
	note(p.unknown, "Pods that leave with volumes of which nothing is known, or that are made with the pod: %d. Where they would go is told without these volumes.")
	note(p.countIf(func(l *leaver) bool { return len(l.pod.Spec.ResourceClaims) > 0 }), "Pods that leave with resource claims (DRA): %d. Where they would go is told without these claims.")
	note(p.countIf(func(l *leaver) bool {
		return l.pod.Spec.SchedulerName != "" && l.pod.Spec.SchedulerName != corev1.DefaultSchedulerName
	}), "Pods that leave and name another scheduler: %d. Told is what the default scheduler would do.")
	note(pending(cluster), "Pods that wait for a node already: %d. They may be placed before the pods that leave, which is not taken into account.")
	note(p.late, "Pods that no node takes at first, and that find one after other pods are placed or leave: %d.")
	note(p.countIf(func(l *leaver) bool { return l.planned.WhereTo != nil && l.planned.WhereTo.Bound }),
		"Pods that leave of which only a bound is known, so as to end in time: %d. The nodes named would take a pod equal to them that left before; pods placed since may have filled some.")
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

func pending(cluster *plan.Cluster) int {
	n := 0
	for _, pod := range cluster.Pods {
		if pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && !plan.IsOver(pod) {
			n++
		}
	}
	return n
}
