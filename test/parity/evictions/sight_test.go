// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// knownNode is a node as the model's process knows it.
type knownNode struct {
	object *corev1.Node
	taints []knownTaint // those with effect NoExecute
}

type knownTaint struct {
	corev1.Taint
	seen  time.Duration // when it was first seen
	since time.Duration // from when it counts
}

// knownPod is a pod as the model's process knows it.
type knownPod struct {
	object *corev1.Pod
	seen   time.Duration            // when it was first seen on its node
	work   time.Duration            // frozen: when the countdown that runs ends; never: there is none
	begun  map[string]time.Duration // fromSight, unless frozen: when the countdown of each taint began
	done   bool                     // unless frozen: it was deleted
	// orphans, byName, unless frozen: when the pod was to leave before its node went, or the pod of
	// its name before it; never: there is no such countdown that goes on.
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
		known = &knownPod{object: after, seen: m.at, work: never, carried: never}
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
		known.seen = m.at
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
	next := m.know(before, node)
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

// know returns what is known of a node after its object was seen.
func (m *model) know(before *knownNode, object *corev1.Node) *knownNode {
	next := &knownNode{object: object}
	for _, taint := range next.noExecute() {
		known := knownTaint{Taint: taint, seen: m.at, since: m.at}
		if earlier := before.same(object, taint); earlier != nil {
			known.seen, known.since = earlier.seen, earlier.since
		}
		if taint.TimeAdded != nil {
			known.since = toTheSecond(taint.TimeAdded.Sub(arena.Epoch), known.seen)
		} else {
			known.seen = known.since // the first sight serves, also after timeAdded was lost
		}
		next.taints = append(next.taints, known)
	}
	return next
}

// same returns the known taint that goes on in a given one, or nil if that counts anew: a taint
// that has no timeAdded goes on if it keeps its value, one that has it if it keeps it or if it
// lies before the instant from which the taint counts anyway.
func (n *knownNode) same(object *corev1.Node, taint corev1.Taint) *knownTaint {
	if n == nil || n.object.UID != object.UID {
		return nil
	}
	for i := range n.taints {
		known := &n.taints[i]
		if known.Key != taint.Key {
			continue
		}
		if taint.TimeAdded == nil && known.Value == taint.Value ||
			taint.TimeAdded != nil && (taint.TimeAdded.Equal(known.TimeAdded) || taint.TimeAdded.Sub(arena.Epoch) <= known.since) {
			return known
		}
	}
	return nil
}

// toTheSecond is the instant of something that was recorded to the second, rounded down, and first
// seen at another instant: not before the end of its second, unless it was seen before.
func toTheSecond(recorded, seen time.Duration) time.Duration {
	return min(recorded-mod(recorded, sec)+sec, seen)
}

func mod(a, b time.Duration) time.Duration { return (a%b + b) % b }

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

// stampAfter is how long a taint without timeAdded is known before it gets one, and stampEvery how
// long it takes until the same node's taints get another.
const (
	stampAfter = 250 * ms
	stampEvery = time.Second
)

// nextStamp returns the node whose taints are looked at next for a missing timeAdded. A controller
// for which a countdown starts with its sight does not care.
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

// stamp writes the timeAdded that is missing: the first sight of the taint, to the second. For the
// process itself that is no news.
func (m *model) stamp(name string) {
	delete(m.stamps, name)
	known := m.nodes[name]
	if known == nil || !slices.ContainsFunc(known.taints, func(taint knownTaint) bool { return taint.TimeAdded == nil }) {
		return
	}
	if last, ok := m.stamped[name]; ok && m.at < last+stampEvery {
		m.stamps[name] = last + stampEvery
		return
	}
	m.stamped[name] = m.at
	for i := range known.taints {
		if known.taints[i].TimeAdded == nil {
			known.taints[i].TimeAdded = instant(known.taints[i].seen)
		}
	}
	stamped := *m.cluster.nodes[name]
	stamped.Spec.Taints = slices.Clone(stamped.Spec.Taints)
	for i := range stamped.Spec.Taints {
		for _, taint := range known.taints {
			if taint.MatchTaint(&stamped.Spec.Taints[i]) {
				stamped.Spec.Taints[i].TimeAdded = taint.TimeAdded
			}
		}
	}
	known.object = &stamped
	m.cluster.putNode(name, &stamped)
}
