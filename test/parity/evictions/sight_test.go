// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// knownNode is a node as the model's process knows it.
type knownNode struct {
	object *corev1.Node
	taints []oracle.Taint
}

// knownPod is a pod as the model's process knows it.
type knownPod struct {
	object *corev1.Pod
	seen   oracle.Span            // when it was first seen on its node
	work   time.Duration          // frozen: when the countdown that runs ends; never: there is none
	begun  map[string]oracle.Span // fromSight, unless frozen: when the countdown of each taint began
	done   bool                   // unless frozen: it was deleted
	// orphans, byName, unless frozen: when the pod was to leave before its node went, or when the previous pod with its
	// name was to leave; never: no such countdown continues.
	carried time.Duration
}

func (m *model) key(pod *corev1.Pod) string {
	if m.has.has(byName) {
		return pod.Name
	}
	return string(pod.UID)
}

// seePod tells the process of a change of a pod.
func (m *model) seePod(before, after *corev1.Pod) {
	if !m.running || m.blind {
		return
	}
	if after == nil {
		delete(m.pods, m.key(before))
		return
	}
	known := m.pods[m.key(after)]
	if known == nil {
		known = &knownPod{object: after, seen: m.now(), work: never, carried: never}
		m.pods[m.key(after)] = known
		m.look(known)
		return
	}
	moved := known.object.Spec.NodeName != after.Spec.NodeName
	other := known.object.UID != after.UID
	news := moved || !apiequality.Semantic.DeepEqual(known.object.Spec.Tolerations, after.Spec.Tolerations)
	if other {
		known.carried = m.leavesAt(known)
	}
	known.object = after
	if moved || other {
		known.seen = m.now()
	}
	if news {
		m.look(known)
	}
}

// seeNode tells the process of a change of a node; the node is nil if it is gone.
func (m *model) seeNode(node *corev1.Node) {
	if !m.running {
		return
	}
	if node == nil {
		m.forgetNodes()
		return
	}
	before := m.nodes[node.Name]
	next := &knownNode{object: node, taints: m.know(before, node)}
	m.nodes[node.Name] = next
	if before != nil && apiequality.Semantic.DeepEqual(before.noExecute(), next.noExecute()) {
		return
	}
	if _, ok := m.stamps[node.Name]; !ok {
		m.stamps[node.Name] = m.at + stampAfter
	}
	for _, known := range m.pods {
		if known.object.Spec.NodeName != node.Name {
			continue
		}
		known.carried = never
		if len(next.taints) == 0 {
			known.work = never
		}
		m.look(known)
	}
}

func (n *knownNode) noExecute() []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.object.Spec.Taints), func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectNoExecute
	})
}

// know returns what is known about a node's taints after its object was seen.
func (m *model) know(before *knownNode, object *corev1.Node) []oracle.Taint {
	var known []oracle.Taint
	if before != nil && before.object.UID == object.UID {
		known = before.taints
	}
	if !m.has.has(apart) {
		return oracle.Next(known, oracle.Version{At: m.now(), Taints: object.Spec.Taints})
	}
	var all []oracle.Taint
	for _, unreachable := range []bool{false, true} { // as two nodes, of which each has one of the two names
		other := func(key string) bool { return (key == corev1.TaintNodeUnreachable) != unreachable }
		all = append(all, oracle.Next(
			slices.DeleteFunc(slices.Clone(known), func(taint oracle.Taint) bool { return other(taint.Key) }),
			oracle.Version{At: m.now(), Taints: slices.DeleteFunc(slices.Clone(object.Spec.Taints),
				func(taint corev1.Taint) bool { return other(taint.Key) })},
		)...)
	}
	return all
}

// forgetNodes forgets the nodes that are gone.
func (m *model) forgetNodes() {
	for name := range m.nodes {
		if m.cluster.nodes[name] != nil {
			continue
		}
		for _, known := range m.pods {
			if known.object.Spec.NodeName != name {
				continue
			}
			if m.has.has(orphans) {
				known.carried = m.leavesAt(known)
			} else {
				known.work = never
			}
		}
		delete(m.nodes, name)
	}
}

// stampAfter is how long a taint is known before its timeAdded is written, and stampAgain how long it takes until the
// same node's taints get another timeAdded. Each further one that follows soon takes twice as long.
const (
	stampAfter = 250 * ms
	stampAgain = time.Second
)

// stamped is how often in a row timeAdded was written to a node's taints, and when it was last.
type stamped struct {
	times int
	last  time.Duration
}

// rest is how long the node's taints are left alone.
func (s stamped) rest() time.Duration { return stampAgain << (s.times - 1) }

// nextStamp returns the node whose taints are looked at next for a timeAdded that is to be written. A controller for
// which a countdown starts when it sees the taint writes none.
func (m *model) nextStamp() (node string, at time.Duration) {
	at = never
	if !m.running || m.has.has(fromSight) {
		return "", at
	}
	for other, stamp := range m.stamps {
		if stamp < at || stamp == at && other < node {
			node, at = other, stamp
		}
	}
	return node, at
}

// unrecorded reports whether timeAdded does not say from when a taint counts.
func unrecorded(t oracle.Taint) bool {
	return t.TimeAdded == nil || !t.Future && t.Record.Before(t.TimeAdded.Time)
}

// stamp writes the timeAdded from which the taints of a node count, to the second. For the process itself that is
// no news.
func (m *model) stamp(name string) {
	delete(m.stamps, name)
	known := m.nodes[name]
	if known == nil || !slices.ContainsFunc(known.taints, unrecorded) {
		return
	}
	past, again := m.stamped[name]
	if again && m.at < past.last+past.rest() {
		m.stamps[name] = past.last + past.rest()
		return
	}
	if again && m.at > past.last+2*past.rest() {
		past.times = 0
	}
	m.stamped[name] = stamped{past.times + 1, m.at}
	after := *m.cluster.nodes[name]
	after.Spec.Taints = slices.Clone(after.Spec.Taints)
	for i, taint := range known.taints {
		if !unrecorded(taint) {
			continue
		}
		known.taints[i].TimeAdded = &metav1.Time{Time: taint.Record}
		for j := range after.Spec.Taints {
			if taint.MatchTaint(&after.Spec.Taints[j]) {
				after.Spec.Taints[j].TimeAdded = known.taints[i].TimeAdded
			}
		}
	}
	known.object = &after
	m.cluster.putNode(name, &after)
}
