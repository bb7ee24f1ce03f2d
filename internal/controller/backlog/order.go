// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"cmp"
	"container/heap"
)

// ordered is a heap whose elements know their positions, so that each can be removed.
type ordered[T any] struct {
	all  []T
	less func(a, b T) bool
	at   func(T) *int // one more than the index; 0 if the element is not in the heap
}

func evictions(less func(a, b *Eviction) bool) ordered[*Eviction] {
	return ordered[*Eviction]{less: less, at: func(e *Eviction) *int { return &e.at }}
}

// first is the order of first tries: by the second in which they are due, then by priority, then by node, because one
// read of a node serves all its pods.
func first(a, b *Eviction) bool {
	return cmp.Or(cmp.Compare(a.Due.Unix(), b.Due.Unix()), next(a, b)) < 0
}

// sooner is the order in which evictions may be tried.
func sooner(a, b *Eviction) bool { return cmp.Or(a.from.Compare(b.from), next(a, b)) < 0 }

func next(a, b *Eviction) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UID, b.UID))
}

func refusedSooner(a, b *Eviction) bool { return a.refused.Before(b.refused) }

func (o *ordered[T]) put(x T)     { heap.Push(o, x) }
func (o *ordered[T]) take(x T)    { heap.Remove(o, *o.at(x)-1) }
func (o *ordered[T]) empty() bool { return len(o.all) == 0 }
func (o *ordered[T]) first() T    { return o.all[0] }

// keep adds, moves or removes an element after its sort key has changed.
func (o *ordered[T]) keep(x T, in bool) {
	switch at := *o.at(x); {
	case in && at == 0:
		o.put(x)
	case in:
		heap.Fix(o, at-1)
	case at > 0:
		o.take(x)
	}
}

// Len implements heap.Interface.
func (o *ordered[T]) Len() int { return len(o.all) }

// Less implements heap.Interface.
func (o *ordered[T]) Less(i, j int) bool { return o.less(o.all[i], o.all[j]) }

// Swap implements heap.Interface.
func (o *ordered[T]) Swap(i, j int) {
	o.all[i], o.all[j] = o.all[j], o.all[i]
	*o.at(o.all[i]), *o.at(o.all[j]) = i+1, j+1
}

// Push implements heap.Interface.
func (o *ordered[T]) Push(x any) {
	o.all = append(o.all, x.(T))
	*o.at(x.(T)) = len(o.all)
}

// Pop implements heap.Interface.
func (o *ordered[T]) Pop() any {
	var none T
	last := len(o.all) - 1
	x := o.all[last]
	o.all[last], o.all = none, o.all[:last]
	*o.at(x) = 0
	return x
}
