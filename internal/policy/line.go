// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Line is where pods wait for places in the paces of their policies and in their budgets. A pod gets all places that it
// needs at once or none, so that one pace never keeps places of another unused. The pod that was due first is called
// first, but a pod that had places and did not leave goes behind those that were due before that.
//
// At most [Pace.Pods] places of a scope are taken at any instant. A pod that is called keeps its places for a few
// seconds; one whose eviction has begun, until it has left or stays; and one that has left, for a window. Every replica
// sees in its watch who leaves, so a new leader knows what the last one did. It is not safe for concurrent use.
type Line struct {
	waiting map[types.UID]*waiter
	order   []*waiter // those that wait, in their order
	called  map[types.UID]call
	missed  map[types.UID]time.Time // when pods lost their places without leaving
}

// Places are what pods wait for: those of a [Window] or of an [Allowance].
type Places interface {
	// Begin says that the eviction of a pod begins. Its place stays taken until it has left or stays.
	Begin(pod types.UID, at time.Time)
	// Begun reports whether the eviction of a pod has begun, and it has neither left nor stays.
	Begun(pod types.UID) bool
	// Stays says that a pod whose eviction has begun stays.
	Stays(pod types.UID)
	// Left says that a pod started to leave, whoever deleted it.
	Left(pod types.UID, at time.Time)

	called(pod types.UID, until time.Time)
	free(pod types.UID, until time.Time)
	has(pod types.UID, now time.Time) bool
	// room returns when there is room: now or before, at an instant, or [Later] if it is not known when.
	room(now time.Time) time.Time
}

// Waiting is a pod that stands in line.
type Waiting struct {
	UID  types.UID
	Node string
	Due  time.Time
}

type waiter struct {
	Waiting

	needs []Places
}

// call are the places that are kept for a pod.
type call struct {
	*waiter

	until time.Time
}

// calledFor is how long places are kept for a pod that was called and whose eviction does not begin.
const calledFor = 5 * time.Second

// NewLine returns an empty line.
func NewLine() *Line {
	return &Line{waiting: map[types.UID]*waiter{}, called: map[types.UID]call{}, missed: map[types.UID]time.Time{}}
}

// Stand reports whether a pod has all places that it needs. If not, it waits for them until it is called.
func (l *Line) Stand(pod Waiting, needs []Places, now time.Time) (places bool) {
	if !slices.ContainsFunc(needs, func(p Places) bool { return !p.has(pod.UID, now) }) {
		return true
	}
	if missed := l.missed[pod.UID]; missed.After(pod.Due) {
		pod.Due = missed
	}
	if known := l.waiting[pod.UID]; known != nil && known.Waiting == pod {
		known.needs = needs
		return false
	}
	l.Forget(pod.UID)
	w := &waiter{pod, needs}
	at, _ := slices.BinarySearchFunc(l.order, w, (*waiter).compare)
	l.waiting[pod.UID], l.order = w, slices.Insert(l.order, at, w)
	return false
}

func (w *waiter) compare(other *waiter) int {
	return cmp.Or(w.Due.Compare(other.Due), cmp.Compare(w.UID, other.UID))
}

// Call gives free places to those that wait. It returns them, and those that did not come when they were called: they
// must stand in line again. Next is when to call again if nothing else happens; zero if nobody waits for an instant.
func (l *Line) Call(now time.Time) (called []Waiting, next time.Time) {
	for uid, c := range l.called {
		if !c.until.After(now) {
			l.Miss(uid, now)
			called = append(called, c.Waiting)
		}
	}
	room := map[Places]time.Time{}
	l.order = slices.DeleteFunc(l.order, func(w *waiter) bool {
		at := w.room(room, now)
		if !at.After(now) {
			l.call(w, now.Add(calledFor))
			for _, need := range w.needs {
				delete(room, need)
			}
			called = append(called, w.Waiting)
			return true
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
		return false
	})
	if next.Equal(Later) {
		next = time.Time{}
	}
	return called, next
}

// room returns when there is room in all places that a pod needs, as far as is known. It keeps what it finds.
func (w *waiter) room(found map[Places]time.Time, now time.Time) (all time.Time) {
	for _, need := range w.needs {
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

func (l *Line) call(w *waiter, until time.Time) {
	delete(l.waiting, w.UID)
	l.called[w.UID] = call{w, until}
	for _, need := range w.needs {
		need.called(w.UID, until)
	}
}

// Empty reports whether nobody waits, and no places are kept.
func (l *Line) Empty() bool { return len(l.waiting) == 0 && len(l.called) == 0 }

// Waits reports whether a pod waits for places.
func (l *Line) Waits(pod types.UID) bool { return l.waiting[pod] != nil }

// Miss says that a pod does not leave now, although it could. The next time it stands further behind.
func (l *Line) Miss(pod types.UID, now time.Time) {
	l.Forget(pod)
	l.missed[pod] = now
}

// Forget takes a pod out of the line: it does not wait, and no place is kept for it until its eviction begins.
func (l *Line) Forget(pod types.UID) {
	if w := l.waiting[pod]; w != nil {
		at, _ := slices.BinarySearchFunc(l.order, w, (*waiter).compare)
		l.order = slices.Delete(l.order, at, at+1)
		delete(l.waiting, pod)
	}
	if c, ok := l.called[pod]; ok {
		for _, need := range c.needs {
			need.free(pod, c.until)
		}
		delete(l.called, pod)
	}
}

// ForgetNode forgets all pods of a node. Those that still must leave stand in line again.
func (l *Line) ForgetNode(node string) {
	var there []types.UID
	for _, w := range l.order {
		if w.Node == node {
			there = append(there, w.UID)
		}
	}
	for uid, c := range l.called {
		if c.Node == node {
			there = append(there, uid)
		}
	}
	for _, uid := range there {
		l.Forget(uid)
	}
}

// Gone forgets a pod that has left. Its windows are told afterwards.
func (l *Line) Gone(pod types.UID) {
	l.Forget(pod)
	delete(l.missed, pod)
}
