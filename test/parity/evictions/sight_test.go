// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// knownNode is a node as the model's process knows it.
type knownNode struct {
	object *corev1.Node
	taints []knownTaint // those with effect NoExecute
}

// knownTaint is a NoExecute taint that is on its node without a break, as far as the model's process knows.
type knownTaint struct {
	corev1.Taint
	since  time.Duration // from when it counts with the value that it has
	past   []spell       // the values that it had before, the latest first
	record *metav1.Time  // what its timeAdded should be
	shown  time.Duration // when the timeAdded that it has was first seen
}

// spell is the time in which a taint has one value.
type spell struct {
	corev1.Taint
	since time.Duration // from when it counts
}

// spells returns the values of a taint, the present one first.
func (t *knownTaint) spells() []spell {
	return append([]spell{{t.Taint, t.since}}, t.past...)
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
		known := m.comes(taint)
		for _, earlier := range before.of(object) {
			switch {
			case earlier.Key != taint.Key && m.oneCause(earlier.Key, taint.Key):
				known.countFrom(earlier)
			case earlier.Key == taint.Key && earlier.Value != taint.Value:
				known.past = earlier.spells()
				if taint.TimeAdded != nil && taint.TimeAdded.Equal(earlier.TimeAdded) {
					known.shown = earlier.shown
				}
				if taint.TimeAdded != nil && taint.TimeAdded.Equal(earlier.record) { // it tells nothing that is not known
					known.since = earlier.since
				}
			case earlier.Key == taint.Key:
				known.countFrom(earlier)
				known.past = earlier.past
			}
		}
		next.taints = append(next.taints, known)
	}
	m.countTogether(next.taints)
	return next
}

// comes returns what is known of a taint that the process sees for the first time.
func (m *model) comes(taint corev1.Taint) knownTaint {
	if taint.TimeAdded == nil {
		return knownTaint{Taint: taint, since: m.at, record: instant(m.at), shown: m.at}
	}
	return knownTaint{
		Taint: taint, since: toTheSecond(taint.TimeAdded.Sub(arena.Epoch), m.at), record: taint.TimeAdded, shown: m.at,
	}
}

// of returns the known taints of a node that is the same as the given one; none of a nil node.
func (n *knownNode) of(object *corev1.Node) []knownTaint {
	if n == nil || n.object.UID != object.UID {
		return nil
	}
	return n.taints
}

// countFrom makes a taint count from the start of another, if that is earlier.
func (t *knownTaint) countFrom(other knownTaint) {
	t.since = min(t.since, other.since)
	if t.TimeAdded != nil && t.TimeAdded.Equal(other.TimeAdded) {
		t.record, t.shown = other.record, other.shown
	} else if told := other.told(); told.Before(t.record) {
		t.record = told
	}
}

// told is what the timeAdded of a taint told when it was first seen: nothing, if it was in the future then.
func (t *knownTaint) told() *metav1.Time {
	if t.record.After(arena.Epoch.Add(t.shown)) {
		return instant(t.shown)
	}
	return t.record
}

// oneCause reports whether two keys are two names of one cause: that the node is not ready.
func (m *model) oneCause(a, b string) bool {
	notReady := func(key string) bool { return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable }
	return a == b || notReady(a) && notReady(b) && !m.has.has(apart)
}

// countTogether makes two taints of one cause on one node count from the earlier of the two.
func (m *model) countTogether(taints []knownTaint) {
	for i := range taints {
		for _, other := range taints {
			if m.oneCause(taints[i].Key, other.Key) {
				taints[i].countFrom(other)
			}
		}
	}
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

// stampAfter is how long a taint is known before its timeAdded is written, and stampAgain how long it takes until the
// same node's taints get another. Each that follows soon takes twice as long.
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

// nextStamp returns the node whose taints are looked at next for a timeAdded that is to be written. A controller
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

// unrecorded reports whether timeAdded does not say from when a taint counts.
func (t knownTaint) unrecorded() bool { return t.TimeAdded == nil || t.record.Before(t.TimeAdded) }

// stamp writes the timeAdded from which the taints of a node count, to the second. For the process itself that is
// no news.
func (m *model) stamp(name string) {
	delete(m.stamps, name)
	known := m.nodes[name]
	if known == nil || !slices.ContainsFunc(known.taints, knownTaint.unrecorded) {
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
	for i := range known.taints {
		if !known.taints[i].unrecorded() {
			continue
		}
		known.taints[i].TimeAdded = known.taints[i].record
		for j := range after.Spec.Taints {
			if known.taints[i].MatchTaint(&after.Spec.Taints[j]) {
				after.Spec.Taints[j].TimeAdded = known.taints[i].record
			}
		}
	}
	known.object = &after
	m.cluster.putNode(name, &after)
}
