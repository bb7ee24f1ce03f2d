// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Line is a pace in one scope: the pods that have started to leave, and those that wait for their turn. Every replica
// keeps the first from what the watch shows, so a new leader knows what the last one did.
//
// At most [Pace.Pods] places are taken at any instant. A place is taken when a pod is called, which is the one that was
// due first, and stays taken for a window after the pod started to leave. It is not safe for concurrent use.
type Line struct {
	pace    Pace
	since   time.Time // from when on all departures are known
	left    []departure
	going   map[types.UID]string // their nodes
	called  map[types.UID]call
	waiting waiters
}

// call is a place that is kept for a pod.
type call struct {
	pod   Waiting
	until time.Time
}

// departure is a pod that started to leave.
type departure struct {
	pod types.UID
	at  time.Time
}

// calledFor is how long a place is kept for a pod that was called and whose eviction does not begin.
const calledFor = 5 * time.Second

// NewLine returns an empty line, which knows all departures from an instant on. Until a whole window has been seen no
// place is free: pods leave later, never sooner.
func NewLine(pace Pace, since time.Time) *Line {
	return &Line{
		pace: pace, since: since, going: map[types.UID]string{}, called: map[types.UID]call{},
		waiting: waiters{at: map[types.UID]int{}},
	}
}

// Stand lets a pod stand in line, unless it does already, and reports whether it has a place. With one, its eviction may
// begin.
func (l *Line) Stand(pod Waiting, now time.Time) (place bool) {
	if !l.has(pod.UID) {
		if _, waits := l.waiting.at[pod.UID]; !waits {
			heap.Push(&l.waiting, pod)
		}
		l.Call(now)
	}
	return l.has(pod.UID)
}

func (l *Line) has(pod types.UID) bool {
	_, going := l.going[pod]
	_, called := l.called[pod]
	return going || called
}

// Call gives the free places to those that have waited for longest, and returns them. Next is when to call again if
// nothing else happens; zero if nobody waits.
func (l *Line) Call(now time.Time) (called []Waiting, next time.Time) {
	l.left = slices.DeleteFunc(l.left, func(d departure) bool { return !l.ends(d).After(now) })
	for uid, c := range l.called {
		if !c.until.After(now) {
			delete(l.called, uid)
			heap.Push(&l.waiting, c.pod)
		}
	}
	known := l.since.Add(l.pace.Per)
	for len(l.waiting.all) > 0 && !known.After(now) && l.taken() < l.pace.Pods {
		pod := heap.Pop(&l.waiting).(Waiting)
		l.called[pod.UID] = call{pod, now.Add(calledFor)}
		called = append(called, pod)
	}
	switch {
	case len(l.waiting.all) == 0:
		return called, time.Time{}
	case known.After(now):
		return called, known
	}
	next = now.Add(l.pace.Per)
	if len(l.left) > 0 {
		next = l.ends(l.left[0])
	}
	for _, c := range l.called {
		if c.until.Before(next) {
			next = c.until
		}
	}
	return called, next
}

func (l *Line) taken() int { return len(l.left) + len(l.going) + len(l.called) }

func (l *Line) ends(d departure) time.Time { return d.at.Add(l.pace.Per) }

// May reports whether the eviction of a pod may begin: it does not wait for a place.
func (l *Line) May(pod types.UID) bool {
	_, waits := l.waiting.at[pod]
	return !waits
}

// Begin says that the eviction of a pod begins: its place stays taken until it has left or goes back.
func (l *Line) Begin(pod types.UID, node string) {
	if !l.leftAlready(pod) {
		l.forget(pod)
		l.going[pod] = node
	}
}

// Back says that a pod does not leave now: it neither stands in line nor has a place.
func (l *Line) Back(pod types.UID) {
	l.forget(pod)
	delete(l.going, pod)
}

// BackFrom takes the pods of a node out of the line. Those whose evictions have begun keep their places, unless none of
// the node's pods must leave any more.
func (l *Line) BackFrom(node string, all bool) {
	var back []types.UID
	for _, pod := range l.waiting.all {
		if pod.Node == node {
			back = append(back, pod.UID)
		}
	}
	for uid, c := range l.called {
		if c.pod.Node == node {
			back = append(back, uid)
		}
	}
	for _, uid := range back {
		l.forget(uid)
	}
	for uid, on := range l.going {
		if all && on == node {
			delete(l.going, uid)
		}
	}
}

// Left says that a pod started to leave, whoever deleted it. It counts once.
func (l *Line) Left(pod types.UID, at time.Time) {
	if l.leftAlready(pod) {
		return
	}
	l.Back(pod)
	i, _ := slices.BinarySearchFunc(l.left, at, func(d departure, at time.Time) int { return d.at.Compare(at) })
	l.left = slices.Insert(l.left, i, departure{pod, at})
}

func (l *Line) leftAlready(pod types.UID) bool {
	return slices.ContainsFunc(l.left, func(d departure) bool { return d.pod == pod })
}

func (l *Line) forget(pod types.UID) {
	delete(l.called, pod)
	if i, waits := l.waiting.at[pod]; waits {
		heap.Remove(&l.waiting, i)
	}
}

// Waiting is a pod that stands in line.
type Waiting struct {
	UID  types.UID
	Node string
	Due  time.Time
}

// waiters is a heap: the pod that was due first is called first.
type waiters struct {
	all []Waiting
	at  map[types.UID]int
}

// Len implements heap.Interface.
func (w *waiters) Len() int { return len(w.all) }

// Less implements heap.Interface.
func (w *waiters) Less(i, j int) bool {
	return cmp.Or(w.all[i].Due.Compare(w.all[j].Due), cmp.Compare(w.all[i].UID, w.all[j].UID)) < 0
}

// Swap implements heap.Interface.
func (w *waiters) Swap(i, j int) {
	w.all[i], w.all[j] = w.all[j], w.all[i]
	w.at[w.all[i].UID], w.at[w.all[j].UID] = i, j
}

// Push implements heap.Interface.
func (w *waiters) Push(x any) {
	w.at[x.(Waiting).UID] = len(w.all)
	w.all = append(w.all, x.(Waiting))
}

// Pop implements heap.Interface.
func (w *waiters) Pop() any {
	last := len(w.all) - 1
	pod := w.all[last]
	w.all = w.all[:last]
	delete(w.at, pod.UID)
	return pod
}
