// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	"k8s.io/apimachinery/pkg/types"
)

// Line is where pods wait for places in the paces of their policies and in their budgets. A pod gets all places that it
// needs at once or none, so that one pace never keeps places of another unused. The pod that was due first is called
// first, but a pod that had places and did not leave goes behind those that were due before that.
//
// The line knows about a node only what the last [Line.Set] said: nothing else tells it that a pod has left or need not
// leave. Set must therefore follow each change of the pods or taints of a node, and each call of one of its pods. This
// frees the places of pods that do not need them.
//
// At most [Pace.Pods] places of a scope are taken at any instant. A called pod keeps its places for a few seconds, a
// pod whose eviction has begun until it has left or stays, and a pod that has left for a window. Every replica sees on
// its watch which pods leave, so a new leader knows what the last one did. A Line is not safe for concurrent use.
type Line struct {
	nodes  map[string]map[types.UID]*member
	order  []*member             // the waiting pods, in order
	called map[*member]time.Time // called pods, and until when places are kept for them
}

// Places are what pods wait for: those of a [Window] or of an [Allowance].
type Places interface {
	// Begin is called when the eviction of a pod begins. Its place stays taken until it has left or stays.
	Begin(pod types.UID, at time.Time)
	// Stays is called when a pod whose eviction has begun stays.
	Stays(pod types.UID)
	// Left is called when a pod started to leave, no matter who deleted it.
	Left(pod types.UID, at time.Time)

	called(pod types.UID, until time.Time)
	free(pod types.UID, until time.Time)
	has(pod types.UID, now time.Time) bool
	// room returns when there is room: now or before, at an instant, or [Later] if it is not known when.
	room(now time.Time) time.Time
}

// Waiting is a pod that needs places.
type Waiting struct {
	UID   types.UID
	Due   time.Time
	Needs []Places
}

// member is a pod that needs places. It waits for them, was called, or has them because its eviction has begun.
type member struct {
	Waiting

	node   string
	missed time.Time // when it lost its places without leaving
	waits  bool
}

// calledFor is how long places are kept for a called pod that still needs them but is not tried, because it waits for
// the backoff of a failed try or behind other pods of a hanging namespace. After that, the next in line gets them.
const calledFor = 5 * time.Second

// NewLine returns an empty line.
func NewLine() *Line {
	return &Line{nodes: map[string]map[types.UID]*member{}, called: map[*member]time.Time{}}
}

// Set replaces which pods of a node need places, whether they have them or not. Pods that lack some wait until they are
// called. It reports whether that is news, after which there may be a pod to call.
func (l *Line) Set(node string, pods []Waiting, now time.Time) (news bool) {
	known, next := l.nodes[node], make(map[types.UID]*member, len(pods))
	for _, pod := range pods {
		m := known[pod.UID]
		if m == nil {
			m = &member{node: node}
		}
		next[pod.UID] = m
		news = l.update(m, pod, now) || news
	}
	for uid, m := range known {
		if next[uid] == nil {
			l.take(m)
			news = true
		}
	}
	if l.nodes[node] = next; len(next) == 0 {
		delete(l.nodes, node)
	}
	return news
}

// update applies what a pod needs, and reports whether it waits for other places than before.
func (l *Line) update(m *member, pod Waiting, now time.Time) (news bool) {
	if until, called := l.called[m]; called && !until.After(now) {
		m.missed = now
	}
	if Has(pod.UID, pod.Needs, now) {
		if m.waits {
			l.take(m)
		}
		m.Waiting = pod
		return false
	}
	same := m.waits && m.Due.Equal(pod.Due) && slices.Equal(m.Needs, pod.Needs)
	if !same {
		l.take(m)
		m.Waiting = pod
		l.wait(m)
	}
	return !same
}

// Has reports whether a pod has all of some places.
func Has(pod types.UID, needs []Places, now time.Time) bool {
	return !slices.ContainsFunc(needs, func(p Places) bool { return !p.has(pod, now) })
}

// wait makes a pod wait that neither waits nor was called.
func (l *Line) wait(m *member) {
	at, _ := slices.BinarySearchFunc(l.order, m, (*member).compare)
	l.order = slices.Insert(l.order, at, m)
	m.waits = true
}

// take removes a pod from the order if it waits, and frees the places that are kept for it if it was called.
func (l *Line) take(m *member) {
	if m.waits {
		at, _ := slices.BinarySearchFunc(l.order, m, (*member).compare)
		l.order = slices.Delete(l.order, at, at+1)
		m.waits = false
	}
	if until, called := l.called[m]; called {
		for _, need := range m.Needs {
			need.free(m.UID, until)
		}
		delete(l.called, m)
	}
}

func (m *member) compare(other *member) int {
	return cmp.Or(m.from().Compare(other.from()), cmp.Compare(m.UID, other.UID))
}

// from is where a pod stands.
func (m *member) from() time.Time {
	if m.missed.After(m.Due) {
		return m.missed
	}
	return m.Due
}

// Call gives free places to waiting pods. Called pods that did not use their places wait again. It returns the nodes of
// both, and when to call again if nothing else happens; zero if nothing waits for an instant.
func (l *Line) Call(now time.Time) (nodes map[string]struct{}, next time.Time) {
	nodes, next = map[string]struct{}{}, Later
	for m, until := range l.called {
		if !until.After(now) {
			l.miss(m, now)
			nodes[m.node] = struct{}{}
		}
	}
	room := map[Places]time.Time{}
	l.order = slices.DeleteFunc(l.order, func(m *member) bool {
		at := m.room(room, now)
		if at.After(now) {
			if at.Before(next) {
				next = at
			}
			return false
		}
		l.call(m, now.Add(calledFor))
		for _, need := range m.Needs {
			delete(room, need)
		}
		nodes[m.node] = struct{}{}
		return true
	})
	for _, until := range l.called {
		next = instant.Next(next, until)
	}
	if next.Equal(Later) {
		next = time.Time{}
	}
	return nodes, next
}

// room returns when there is room in all places that a pod needs, as far as is known. It caches what it finds.
func (m *member) room(found map[Places]time.Time, now time.Time) (all time.Time) {
	for _, need := range m.Needs {
		at, known := found[need]
		if !known {
			at = need.room(now)
			found[need] = at
		}
		if at.After(all) {
			all = at
		}
	}
	return all
}

func (l *Line) call(m *member, until time.Time) {
	m.waits = false
	l.called[m] = until
	for _, need := range m.Needs {
		need.called(m.UID, until)
	}
}

// NodesOf returns the nodes of the pods that wait for some places.
func (l *Line) NodesOf(places Places) (nodes []string) {
	for _, m := range l.order {
		if slices.Contains(m.Needs, places) && !slices.Contains(nodes, m.node) {
			nodes = append(nodes, m.node)
		}
	}
	return nodes
}

// Empty reports whether no pod waits and no places are kept.
func (l *Line) Empty() bool { return len(l.order) == 0 && len(l.called) == 0 }

// Begin is called when the eviction of a pod begins: it no longer waits, and no place is kept for it. The caller then
// calls Begin of its places.
func (l *Line) Begin(node string, pod types.UID) {
	if m := l.nodes[node][pod]; m != nil {
		l.take(m)
	}
}

// Stays is called when a pod whose eviction has begun stays, after Stays of its places. The pod waits again, further
// behind.
func (l *Line) Stays(node string, pod types.UID, now time.Time) {
	if m := l.nodes[node][pod]; m != nil {
		l.miss(m, now)
	}
}

func (l *Line) miss(m *member, now time.Time) {
	l.take(m)
	m.missed = now
	l.wait(m)
}
