// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// deletedAt returns when the API server accepted the delete of a pod that was seen to go at an instant: what its object
// says, or that instant.
func deletedAt(pod *corev1.Pod, seen verdict.Sight) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return seen.At
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return seen.Start(pod.DeletionTimestamp.Add(-grace))
}

// observe notes what a change of a pod says about the built-in.
func (b *book) observe(change podcache.Change, seen verdict.Sight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.began.IsZero() || change.Before == nil {
		return
	}
	before, after := change.Before, change.After
	marked := after != nil && after.Flags.Has(podcache.MarkedByBuiltIn) && !before.Flags.Has(podcache.MarkedByBuiltIn)
	switch {
	case before.Flags.Has(podcache.Terminating):
		if marked {
			b.observeAgain(before, deletedAt(change.Object, seen), seen.At)
		}
	case after == nil || after.Flags.Has(podcache.Terminating):
		b.observeDelete(change, seen)
	case marked:
		b.observeMark(after, seen.At)
	}
}

// observeDelete notes that a pod was deleted, by the built-in or by somebody else.
func (b *book) observeDelete(change podcache.Change, seen verdict.Sight) {
	newest := change.Before
	if change.After != nil {
		newest = change.After
	}
	byBuiltIn := newest.Flags.Has(podcache.MarkedByBuiltIn)
	switch {
	case byBuiltIn && change.Object == nil:
		b.observeUnseen(change.Before)
	case !byBuiltIn || b.stale(change, seen):
		b.observeOther(change.Before, seen.At)
	default:
		b.observeEviction(change.Before, deletedAt(change.Object, seen), seen.At)
	}
}

// markHolds is for how long a mark says that it is the built-in that deletes a pod which is not due: it deletes right
// after it marks, or later by what its queue takes in a storm. Marks of evictions that failed stay on their pods.
const markHolds = 5 * time.Minute

// stale reports whether a marked pod was deleted so long after the mark, and without being due, that somebody else did
// it.
func (b *book) stale(change podcache.Change, seen verdict.Sight) bool {
	if !change.Before.Flags.Has(podcache.MarkedByBuiltIn) {
		return false // it was marked just now
	}
	marked, left := seen.Start(markedAt(change.Object)), deletedAt(change.Object, seen)
	p := b.byNode[change.Before.Node][change.Before.UID]
	if p != nil && p.marked.After(marked) {
		marked = p.marked
	}
	due := p != nil && p.leaves && !p.due.After(left.Add(Tolerance))
	return !due && left.Sub(marked) > markHolds
}

// markedAt returns when a pod was marked, by its own account: that is too early if it had the condition for another
// reason.
func markedAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.DisruptionTarget {
			return pod.Status.Conditions[i].LastTransitionTime.Time
		}
	}
	return time.Time{}
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
	if v, leaves := b.verdicts.Over(pod); leaves && !p.leaves {
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

// observeUnseen notes that a pod that the built-in has marked went while the watch of pods was interrupted: nobody can
// tell when.
func (b *book) observeUnseen(pod *podcache.Pod) {
	p := b.promise(pod)
	b.count(p, Unjudged)
	b.report.takeBack(pod.UID)
	b.forget(p)
}

// observeAgain notes that the built-in has marked a pod that terminated already. One that came to terminate just before
// is no fault: the built-in had not seen it yet.
func (b *book) observeAgain(pod *podcache.Pod, left, at time.Time) {
	const crossed = time.Second / 2
	if b.byNode[pod.Node][pod.UID] != nil || at.Sub(left) <= crossed {
		return
	}
	p := b.promise(pod)
	p.left, p.leftSeen, p.judged = at, at, true
	b.count(p, Twice)
	b.tell(p, Twice, "it was terminating already when the built-in marked it for deletion", at)
}
