// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"container/heap"
	"time"
)

// kind is the kind of an event. Events at the same instant happen in this order.
type kind int

const (
	stepped      kind = iota // a step of the scenario
	health                   // node health looks at nodes
	policiesTurn             // breakers count due pods, and pods that wait get free places of paces and budgets
	looks                    // the pods of a node are checked
	calls                    // kube-controller-manager makes calls
	freed                    // pods that wait get the places of those that have left
	places                   // successors look for room
	ends                     // pods that leave are gone
	attaches                 // pods that wait for volumes try to attach them
	starts                   // a pod becomes ready
)

// event is something that happens at an instant.
type event struct {
	at       time.Time
	kind     kind
	sequence int
	do       func(now time.Time)
}

// queue contains future events, ordered by time, kind and sequence.
type queue struct {
	events events
	last   int
}

func (q *queue) add(at time.Time, kind kind, do func(now time.Time)) {
	q.last++
	heap.Push(&q.events, event{at, kind, q.last, do})
}

// next removes and returns the next event, if it is not after the given instant.
func (q *queue) next(until time.Time) (event, bool) {
	if len(q.events) == 0 || q.events[0].at.After(until) {
		return event{}, false
	}
	return heap.Pop(&q.events).(event), true
}

// once is one kind of event about one object. Only the earliest such event counts.
type once struct {
	queue *queue
	kind  kind
	do    func(now time.Time)
	at    time.Time // of the event that counts; zero if there is none
}

// set schedules the event at an instant, unless it happens earlier anyway. A zero instant means never.
func (o *once) set(at time.Time) {
	if at.IsZero() || !o.at.IsZero() && !at.Before(o.at) {
		return
	}
	o.at = at
	o.queue.add(at, o.kind, func(now time.Time) {
		if now.Equal(o.at) {
			o.at = time.Time{}
			o.do(now)
		}
	})
}

// events implements [heap.Interface].
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }

func (e events) Less(i, j int) bool {
	a, b := e[i], e[j]
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.sequence, b.sequence)) < 0
}

func (e *events) Pop() any {
	last := len(*e) - 1
	popped := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return popped
}
