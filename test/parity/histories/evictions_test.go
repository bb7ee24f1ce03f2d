// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// evictions is the game of the taint-eviction controllers.
var evictions = game{
	generate: generateEvictions, ours: ours, upstream: upstream,
	outcome: func(w *world) outcome { return w.pods },
	rule:    func(h *history, _ outcome) outcome { return predictDeletes(h, none) },
	model:   func(h *history, _ []time.Duration, has quirks) outcome { return predictDeletes(h, has) },
	agree:   func(rule, upstream []look) bool { return equal(rule, upstream, roughly) },
	quirks: []string{
		"4: frozen countdown", "6: overflow", "7: keyed by name", "8: terminating pod deleted again", "9: mirror pod deleted",
		"10: countdown from sight", "node gone: countdown goes on",
	},
	needFirst: byName | fromSight | orphans,
	enough:    2000,
}

func init() { evictions.timers = predictByTimers } // which asks for all quirks

// The defects of upstream's taint-eviction controller. The numbers refer to docs/defects.md.
const (
	// frozen (4): once a countdown runs for a pod, other taints and other tolerationSeconds do not change it; only the
	// end of all taints or of the pod, or a toleration without a limit, ends it; a taint that is not tolerated makes
	// the pod leave at once.
	frozen quirks = 1 << iota
	// overflow (6): tolerationSeconds are counted in 64-bit nanoseconds.
	overflow
	// byName (7): what is known about a pod is kept under its name, and the name is deleted.
	byName
	// terminatingAgain (8): a pod that terminates already is deleted like any other.
	terminatingAgain
	// mirrorPods (9): mirror pods are deleted.
	mirrorPods
	// fromSight (10): a countdown starts when the process first sees that the pod must leave. So not-ready and unreachable
	// each count from when they came.
	fromSight
	// orphans (no number there; in docs/differences.md): a countdown continues when its node is gone.
	orphans
)

// TestEvictions plays random histories to upstream's taint-eviction controller and to ours, and explains every
// difference.
func TestEvictions(t *testing.T) { evictions.play(t, seed.Count(3000)) }

// The operators Gt and Lt are behind a feature gate of their own.
func TestEvictionsWithComparisonOperators(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TaintTolerationComparisonOperators, true)
	evictions.play(t, max(1, seed.Count(3000)/10))
}

// predictDeletes says which pods a taint-eviction controller with the given defects deletes in a history, and when.
func predictDeletes(h *history, has quirks) outcome { return newEvictionsModel(h, has, false) }

// predictByTimers says what the plugin says that upstream deletes, and when.
func predictByTimers(h *history) outcome { return newEvictionsModel(h, evictions.all(), true) }

func newEvictionsModel(h *history, has quirks, byTimers bool) outcome {
	m := &evictionsModel{process: newProcess(has), byTimers: byTimers}
	m.cluster.nodeChanged = func(_, after *corev1.Node) { m.seeNode(after) }
	m.cluster.podChanged = m.seePod
	return simulate(h, m)
}

// evictionsModel is a controller of evictions with some defects.
type evictionsModel struct {
	process

	byTimers bool // builtin.Timers decides when pods leave

	// What the process knows. A restart forgets it.
	nodes   map[string]*knownNode
	pods    map[string]*knownPod
	stamps  map[string]time.Duration // by node: when timeAdded is to be written
	stamped map[string]stamped       // by node
	listed  time.Duration            // the end of the blindness after which pods were listed last
}

// blind reports whether pods cannot be seen.
func (m *evictionsModel) blind() bool { return m.listed != m.cluster.blindUntil }

func (m *evictionsModel) next() time.Duration {
	_, due := m.nextDue()
	_, stamp := m.nextStamp()
	if m.blind() {
		return min(due, stamp, m.cluster.blindUntil)
	}
	return min(due, stamp)
}

// act lets pods that must leave do so first.
func (m *evictionsModel) act() {
	key, due := m.nextDue()
	node, stamp := m.nextStamp()
	switch {
	case due <= m.now:
		m.evict(key)
	case stamp <= m.now:
		m.stamp(node)
	default:
		m.relist()
	}
}

// start lists nodes and pods.
func (m *evictionsModel) start() {
	m.nodes, m.pods = map[string]*knownNode{}, map[string]*knownPod{}
	m.stamps, m.stamped = map[string]time.Duration{}, map[string]stamped{}
	for _, node := range sorted(m.cluster.nodes) {
		m.seeNode(node)
	}
	for _, pod := range sorted(m.cluster.pods) {
		m.seePod(nil, pod)
	}
}

// relist ends a blindness: what is not listed is gone.
func (m *evictionsModel) relist() {
	m.listed = m.cluster.blindUntil
	for key, known := range m.pods {
		listed := m.cluster.pods[known.object.Name]
		if listed == nil || m.key(listed) != key {
			delete(m.pods, key)
		}
	}
	for _, pod := range sorted(m.cluster.pods) {
		m.seePod(nil, pod)
	}
}

// nextDue returns the pod that must leave next. A pod that was due in the past leaves now.
func (m *evictionsModel) nextDue() (key string, due time.Duration) {
	due = never
	for other, known := range m.pods {
		if at := m.leavesAt(known); at < due || at == due && other < key {
			key, due = other, at
		}
	}
	return key, due
}

// evict deletes a pod: with its UID, or the pod that now has the name.
func (m *evictionsModel) evict(key string) {
	known := m.pods[key]
	known.timer, known.done = never, true
	pod := m.cluster.pods[known.object.Name]
	if pod == nil || pod.UID != known.object.UID && !m.quirks.has(byName) {
		return
	}
	m.seen.deleted(string(pod.UID), m.now)
	m.cluster.delete(pod.Name, m.now)
}

// excluded reports whether a pod is never evicted.
func (m *evictionsModel) excluded(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror && !m.quirks.has(mirrorPods) || pod.DeletionTimestamp != nil && !m.quirks.has(terminatingAgain)
}

// leavesAt is when the model evicts a pod, by what its process knows now. It may lie in the past.
func (m *evictionsModel) leavesAt(known *knownPod) time.Duration {
	switch {
	case m.excluded(known.object):
		return never
	case m.quirks.has(frozen):
		return known.timer
	case known.done:
		return never
	}
	return m.due(known).at
}

// due is when a pod must leave because of the taints of its node.
type due struct {
	at          time.Duration // never: it stays
	untolerated bool          // because of a taint that no toleration matches
}

func (m *evictionsModel) due(known *knownPod) due {
	node := m.nodes[known.object.Spec.NodeName]
	if node == nil {
		return due{at: never}
	}
	pod := oracle.Pod{Tolerations: known.object.Spec.Tolerations}
	if !m.quirks.has(fromSight) {
		pod.Bound = bound(known)
	}
	var earliest due
	var taints []oracle.Taint
	for _, taint := range node.taints {
		if m.quirks.has(frozen) {
			taint.Values = nil
		}
		if m.quirks.has(fromSight) {
			taint.Since = m.sight()
		}
		taints = append(taints, taint)
		earliest.untolerated = earliest.untolerated || rule().First(pod.Tolerations, taint.Taint) == nil
	}
	earliest.at = afterEpoch(rule().Due(pod, taints).To)
	if m.quirks.has(overflow) && earliest.at == ages {
		earliest.at = overflowed(pod, taints)
	}
	return earliest
}

// rule is the rule with the feature gates of upstream's controller.
func rule() oracle.Rule { return oracle.Rule{ComparisonOperators: comparisonOperators()} }

// ages is an instant that no history reaches, and that yet is not never: a countdown runs.
const ages = never / 2

func afterEpoch(instant time.Time) time.Duration {
	if instant.Equal(oracle.Never) {
		return never
	}
	return min(instant.Sub(epoch), ages)
}

func (m *evictionsModel) sight() oracle.Span { return oracle.At(epoch.Add(m.now)) }

// overflowed is when a pod leaves if its shortest tolerationSeconds, which end in ages, are counted in 64-bit
// nanoseconds. A product that is negative counts as tolerated indefinitely.
func overflowed(pod oracle.Pod, taints []oracle.Taint) time.Duration {
	shortest, start := int64(math.MaxInt64), never
	for _, taint := range taints {
		if seconds := rule().First(pod.Tolerations, taint.Taint).TolerationSeconds; seconds != nil {
			shortest = min(shortest, *seconds)
		}
		start = min(start, afterEpoch(taint.Since.Max(pod.Bound).To))
	}
	if countdown := time.Duration(shortest) * time.Second; countdown >= 0 {
		return min(start+min(countdown, ages), ages)
	}
	return never
}

// bound is when a pod was bound.
func bound(known *knownPod) oracle.Span {
	recorded := known.object.CreationTimestamp.Time
	for _, condition := range known.object.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			recorded = condition.LastTransitionTime.Time
		}
	}
	return oracle.Dated(recorded, known.seen)
}

// look is what a controller that acts on changes does: it looks at a pod when the taints of its node, its tolerations
// or its node have changed.
func (m *evictionsModel) look(known *knownPod) {
	known.done = false
	node := m.nodes[known.object.Spec.NodeName]
	if node == nil || len(node.taints) == 0 || m.excluded(known.object) {
		return
	}
	if m.byTimers {
		m.lookByTimers(known, node)
		return
	}
	if due := m.due(known); due.at == never || due.untolerated || known.timer == never {
		known.timer = due.at
	}
}

// knownNode is a node as the model's process knows it.
type knownNode struct {
	object *corev1.Node
	taints []oracle.Taint
}

// knownPod is a pod as the model's process knows it.
type knownPod struct {
	object *corev1.Pod
	seen   oracle.Span   // when it was first seen on its node
	timer  time.Duration // frozen: when it must leave; never: there is no timer
	done   bool          // otherwise: it was deleted
}

func (m *evictionsModel) key(pod *corev1.Pod) string {
	if m.quirks.has(byName) {
		return pod.Name
	}
	return string(pod.UID)
}

// seePod tells the process of a change of a pod.
func (m *evictionsModel) seePod(before, after *corev1.Pod) {
	if !m.running || m.blind() {
		return
	}
	if after == nil {
		delete(m.pods, m.key(before))
		return
	}
	known := m.pods[m.key(after)]
	if known == nil {
		known = &knownPod{object: after, seen: m.sight(), timer: never}
		m.pods[m.key(after)] = known
		m.look(known)
		return
	}
	moved := known.object.Spec.NodeName != after.Spec.NodeName
	other := known.object.UID != after.UID
	news := moved || !apiequality.Semantic.DeepEqual(known.object.Spec.Tolerations, after.Spec.Tolerations)
	known.object = after
	if moved || other {
		known.seen = m.sight()
	}
	if news {
		m.look(known)
	}
}

// seeNode tells the process of a change of a node; the node is nil if it is gone.
func (m *evictionsModel) seeNode(node *corev1.Node) {
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
		m.stamps[node.Name] = m.now + stampAfter
	}
	for _, known := range m.pods {
		if known.object.Spec.NodeName != node.Name {
			continue
		}
		if len(next.taints) == 0 {
			known.timer = never
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
func (m *evictionsModel) know(before *knownNode, object *corev1.Node) []oracle.Taint {
	var known []oracle.Taint
	if before != nil && before.object.UID == object.UID {
		known = before.taints
	}
	return oracle.Next(known, oracle.Version{At: m.sight(), Taints: object.Spec.Taints})
}

// forgetNodes forgets the nodes that are gone.
func (m *evictionsModel) forgetNodes() {
	for name := range m.nodes {
		if m.cluster.nodes[name] != nil {
			continue
		}
		for _, known := range m.pods {
			if known.object.Spec.NodeName == name && !m.quirks.has(orphans) {
				known.timer = never
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
func (m *evictionsModel) nextStamp() (node string, at time.Duration) {
	at = never
	if m.quirks.has(fromSight) {
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
func (m *evictionsModel) stamp(name string) {
	delete(m.stamps, name)
	known := m.nodes[name]
	if known == nil || !slices.ContainsFunc(known.taints, unrecorded) {
		return
	}
	past, again := m.stamped[name]
	if again && m.now < past.last+past.rest() {
		m.stamps[name] = past.last + past.rest()
		return
	}
	if again && m.now > past.last+2*past.rest() {
		past.times = 0
	}
	m.stamped[name] = stamped{past.times + 1, m.now}
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

// lookByTimers looks at a pod on a tainted node as builtin.Timers says that upstream does.
func (m *evictionsModel) lookByTimers(known *knownPod, node *knownNode) {
	timers := builtin.Timers{Rule: matching()}
	now := epoch.Add(m.now)
	var timer verdict.Verdict
	if known.timer != never {
		timer.Leaves, timer.Due = true, epoch.Add(known.timer)
	}
	var onNode []verdict.Taint
	for _, taint := range node.noExecute() {
		onNode = append(onNode, verdict.Taint{Taint: taint, Since: now})
	}
	pod := verdict.Pod{Tolerations: known.object.Spec.Tolerations}
	known.timer = never
	if timer = timers.Look(timer, pod, onNode, now); timer.Leaves {
		known.timer = min(timer.Due.Sub(epoch), ages)
	}
}
