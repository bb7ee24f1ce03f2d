// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// predict says which pods a taint-eviction controller with the given defects deletes in a history,
// and when. It is a discrete event simulation without client, clock and goroutine: every change is
// seen, and every delete accepted, at the very instant at which it happens.
func predict(h *history, has defects) outcome {
	return (&model{has: has}).predict(h)
}

// predictByTimers says what the plugin says that upstream deletes, and when.
func predictByTimers(h *history) outcome {
	return (&model{has: all, byTimers: true}).predict(h)
}

func (m *model) predict(h *history) outcome {
	m.cluster, m.deletes = newCluster(h), outcome{}
	m.cluster.nodeChanged = func(_, after *corev1.Node) { m.seeNode(after) }
	m.cluster.podChanged = m.seePod
	m.run(h)
	return m.deletes
}

// model is a cluster and a controller with some defects, at an instant.
type model struct {
	has      defects
	byTimers bool // builtin.Timers decides when pods leave
	cluster  *cluster
	at       time.Duration
	deletes  outcome

	// What the controller's process knows. A restart forgets it.
	running  bool
	blind    bool // it does not see pods
	nodes    map[string]*knownNode
	pods     map[string]*knownPod
	stamps   map[string]time.Duration // by node: when timeAdded is to be written
	stamped  map[string]stamped       // by node
	relistAt time.Duration
}

// run lets things happen in their order until the history ends. Only things that follow from each
// other happen at once, and pods that must leave do so first.
func (m *model) run(h *history) {
	occasions, end := h.occasions(), h.end()
	m.relistAt = never
	for {
		upcoming := never
		if len(occasions) > 0 {
			upcoming = occasions[0].at
		}
		key, due := m.nextDue()
		node, stamp := m.nextStamp()
		removal := m.cluster.nextRemoval()
		m.at = max(m.at, min(due, removal, stamp, m.relistAt, upcoming))
		switch {
		case m.at > end:
			return
		case due <= m.at:
			m.evict(key)
		case removal <= m.at:
			m.cluster.removeEnded(m.at)
		case stamp <= m.at:
			m.stamp(node)
		case m.relistAt <= m.at:
			m.relist()
		default:
			m.take(occasions[0])
			occasions = occasions[1:]
		}
		m.remember()
	}
}

func (m *model) take(next occasion) {
	switch {
	case next.step == nil:
		m.start()
		return
	case isRestart(next.step.Do):
		m.running = false
		return
	}
	if _, ok := next.step.Do.(createUnseen); ok {
		m.blind, m.relistAt = true, m.at+blindFor
	}
	m.cluster.apply(*next.step)
}

// start begins a process, which lists nodes and pods first.
func (m *model) start() {
	if m.running {
		return
	}
	m.running = true
	m.nodes, m.pods = map[string]*knownNode{}, map[string]*knownPod{}
	m.stamps, m.stamped = map[string]time.Duration{}, map[string]stamped{}
	for _, node := range arena.Sorted(m.cluster.nodes) {
		m.seeNode(node)
	}
	for _, pod := range arena.Sorted(m.cluster.pods) {
		m.seePod(nil, pod)
	}
}

// relist ends a blindness: what is not listed is gone.
func (m *model) relist() {
	m.blind, m.relistAt = false, never
	if !m.running {
		return
	}
	for key, known := range m.pods {
		listed := m.cluster.pods[known.object.Name]
		if listed == nil || m.key(listed) != key {
			delete(m.pods, key)
		}
	}
	for _, pod := range arena.Sorted(m.cluster.pods) {
		m.seePod(nil, pod)
	}
}

// nextDue returns the pod that must leave next. A pod that was due in the past leaves now.
func (m *model) nextDue() (key string, due time.Duration) {
	due = never
	if !m.running {
		return "", due
	}
	for other, known := range m.pods {
		if at := m.leavesAt(known); at < due || at == due && other < key {
			key, due = other, at
		}
	}
	return key, due
}

// evict deletes a pod: with its UID, or the pod that now has the name.
func (m *model) evict(key string) {
	known := m.pods[key]
	known.work, known.done = never, true
	pod := m.cluster.pods[known.object.Name]
	if pod == nil || pod.UID != known.object.UID && !m.has.has(byName) {
		return
	}
	m.deletes.note(string(pod.UID), m.at)
	m.cluster.delete(pod.Name, m.at)
}

// excluded reports whether a pod is never evicted.
func (m *model) excluded(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror && !m.has.has(mirrorPods) || pod.DeletionTimestamp != nil && !m.has.has(terminatingAgain)
}
