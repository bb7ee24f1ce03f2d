// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// deletedAt returns when the API server accepted the delete of a pod that was seen to go at an instant: what its object
// says, or that instant.
func deletedAt(pod *corev1.Pod, ours func(time.Time) time.Time, seen time.Time) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return seen
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return verdict.Precise(ours(pod.DeletionTimestamp.Add(-grace)), seen)
}

// observe notes what a change of a pod says about the built-in.
func (b *book) observe(change podcache.Change, ours func(time.Time) time.Time, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.began.IsZero() || change.Before == nil {
		return
	}
	before, after := change.Before, change.After
	went, newest := after == nil, before
	if after != nil {
		went, newest = after.Flags.Has(podcache.Terminating), after
	}
	byBuiltIn := newest.Flags.Has(podcache.MarkedByBuiltIn)
	switch {
	case before.Flags.Has(podcache.Terminating):
		b.observeTerminating(before, after, byBuiltIn, at)
	case went && byBuiltIn:
		b.observeEviction(before, deletedAt(change.Object, ours, at), at)
	case went:
		b.observeOther(before, at)
	case byBuiltIn:
		b.observeMark(after, at)
	}
}

// observeMark notes that the built-in is about to delete a pod.
func (b *book) observeMark(pod *podcache.Pod, at time.Time) {
	if p := b.promise(pod); p.marked.IsZero() {
		p.marked = at
	}
}

// observeEviction notes that the built-in has deleted a pod.
func (b *book) observeEviction(pod *podcache.Pod, left, at time.Time) {
	b.evictions++
	p := b.promise(pod)
	if v, leaves := b.forecast.Over(pod); leaves && !p.leaves {
		p.leaving(v, left, b.unsure(pod.Node))
	}
	p.left, p.leftSeen = left, at
}

// observeOther notes that somebody else has deleted a pod, or that it went while nobody looked.
func (b *book) observeOther(pod *podcache.Pod, at time.Time) {
	p := b.byNode[pod.Node][pod.UID]
	if p == nil {
		return
	}
	if p.reported {
		b.count(p, Never)
	}
	b.went(p, at)
	b.forget(p)
}

// observeTerminating notes what becomes of a pod that terminates.
func (b *book) observeTerminating(before, after *podcache.Pod, byBuiltIn bool, at time.Time) {
	p := b.byNode[before.Node][before.UID]
	if after == nil || p != nil || !byBuiltIn || before.Flags.Has(podcache.MarkedByBuiltIn) {
		return // it is gone; or that it goes was noted; or nothing is new
	}
	p = b.promise(before)
	p.left, p.leftSeen, p.judged = at, at, true
	b.count(p, Twice)
	b.tell(p, Twice, "it was terminating already when the built-in marked it for deletion", at)
}
