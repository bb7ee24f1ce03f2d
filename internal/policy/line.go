// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Line is where pods wait for places, of which there are not always enough. The pod that was due first is called first.
// A place is taken from the call until the pod has left or goes back. It is not safe for concurrent use.
type Line struct {
	going   map[types.UID]string // their nodes
	called  map[types.UID]call
	waiting waiters
}

// call is a place that is kept for a pod.
type call struct {
	pod   Waiting
	until time.Time
}

// calledFor is how long a place is kept for a pod that was called and whose eviction does not begin. Then it waits
// again.
const calledFor = 5 * time.Second

// NewLine returns an empty line.
func NewLine() *Line {
	return &Line{
		going: map[types.UID]string{}, called: map[types.UID]call{}, waiting: waiters{at: map[types.UID]int{}},
	}
}

// Stand lets a pod stand in line, unless it does already or has a place.
func (l *Line) Stand(pod Waiting) {
	if _, waits := l.waiting.at[pod.UID]; !waits && !l.Has(pod.UID) {
		heap.Push(&l.waiting, pod)
	}
}

// Has reports whether a pod has a place.
func (l *Line) Has(pod types.UID) bool {
	_, going := l.going[pod]
	_, called := l.called[pod]
	return going || called
}

// Waits reports whether a pod waits for a place.
func (l *Line) Waits(pod types.UID) bool {
	_, waits := l.waiting.at[pod]
	return waits
}

// Taken is how many places are taken.
func (l *Line) Taken() int { return len(l.going) + len(l.called) }

// Empty reports whether nobody waits.
func (l *Line) Empty() bool { return len(l.waiting.all) == 0 }

// Call gives places to those that have waited for longest, until so many are taken, and returns them.
func (l *Line) Call(places int, now time.Time) (called []Waiting) {
	for uid, c := range l.called {
		if !c.until.After(now) {
			delete(l.called, uid)
			heap.Push(&l.waiting, c.pod)
		}
	}
	for !l.Empty() && l.Taken() < places {
		pod := heap.Pop(&l.waiting).(Waiting)
		l.called[pod.UID] = call{pod, now.Add(calledFor)}
		called = append(called, pod)
	}
	return called
}

// Expires returns when the first call expires; zero if nobody is called.
func (l *Line) Expires() (first time.Time) {
	for _, c := range l.called {
		if first.IsZero() || c.until.Before(first) {
			first = c.until
		}
	}
	return first
}

// Begin says that the eviction of a pod begins: its place stays taken until it has left or goes back.
func (l *Line) Begin(pod types.UID, node string) {
	l.forget(pod)
	l.going[pod] = node
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
