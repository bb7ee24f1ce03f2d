// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// deletedAt returns when the API server accepted the delete of a pod: what its object says, or the instant at which it
// was seen to leave.
func deletedAt(pod *corev1.Pod, seen verdict.Sight) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return seen.At
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return seen.Start(pod.DeletionTimestamp.Add(-grace))
}

// observe notes what a change of a pod says about the built-in.
func (ps *promises) observe(change podcache.Change, seen verdict.Sight) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.began.IsZero() || change.Before == nil {
		return
	}
	before, after := change.Before, change.After
	marked := after != nil && after.Flags.Has(podcache.MarkedByBuiltIn) && !before.Flags.Has(podcache.MarkedByBuiltIn)
	switch {
	case before.Flags.Has(podcache.Terminating):
		if marked {
			ps.observeAgain(before, deletedAt(change.Object, seen), seen.At)
		}
	case after == nil || after.Flags.Has(podcache.Terminating):
		ps.observeDelete(change, seen)
	case marked:
		ps.observeMark(after, seen.At)
	}
}

// observeDelete notes that a pod was deleted, by the built-in or by another client.
func (ps *promises) observeDelete(change podcache.Change, seen verdict.Sight) {
	newest := change.Before
	if change.After != nil {
		newest = change.After
	}
	byBuiltIn := newest.Flags.Has(podcache.MarkedByBuiltIn)
	switch {
	case byBuiltIn && change.Object == nil:
		ps.observeUnseen(change.Before)
	case !byBuiltIn || ps.stale(change, seen):
		ps.observeOther(change.Before, seen.At)
	default:
		ps.observeEviction(change.Before, deletedAt(change.Object, seen), seen.At)
	}
}

// markHolds is how long after a mark a delete of a pod that is not due is attributed to the built-in. The built-in
// deletes right after it marks, or, in a storm, once its queue gets that far. Marks of failed evictions stay on their
// pods.
const markHolds = 5 * time.Minute

// stale reports whether a marked pod was deleted by another client, because it was not due and the mark is too old.
func (ps *promises) stale(change podcache.Change, seen verdict.Sight) bool {
	if !change.Before.Flags.Has(podcache.MarkedByBuiltIn) {
		return false // it was marked just now
	}
	marked, left := seen.Start(markedAt(change.Object)), deletedAt(change.Object, seen)
	p := ps.byNode[change.Before.Node][change.Before.UID]
	if p != nil && p.marked.After(marked) {
		marked = p.marked
	}
	due := p != nil && p.leaves && !p.due.After(left.Add(Tolerance))
	return !due && left.Sub(marked) > markHolds
}

// markedAt returns when a pod was marked, according to its condition. That is too early if it had the condition for
// another reason before.
func markedAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.DisruptionTarget {
			return pod.Status.Conditions[i].LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// observeMark notes that the built-in is about to delete a pod.
func (ps *promises) observeMark(pod *podcache.Pod, at time.Time) {
	if p := ps.promise(pod); p.marked.IsZero() {
		p.marked = at
	}
}

// observeEviction notes that the built-in has deleted a pod.
func (ps *promises) observeEviction(pod *podcache.Pod, left, at time.Time) {
	ps.evictions++
	p := ps.promise(pod)
	if v, leaves := ps.verdicts.Over(pod); leaves && !p.leaves {
		p.leaving(v, left, ps.unsure(pod.Node))
	}
	p.left, p.leftSeen = left, at
}

// observeOther notes that another client has deleted a pod, or that it left unobserved.
func (ps *promises) observeOther(pod *podcache.Pod, at time.Time) {
	p := ps.byNode[pod.Node][pod.UID]
	if p == nil {
		return
	}
	if p.reported {
		ps.count(p, Never)
	}
	ps.went(p, at)
	ps.forget(p)
}

// observeUnseen notes that a pod that the built-in had marked left while the watch of pods was interrupted, so it is
// not known when.
func (ps *promises) observeUnseen(pod *podcache.Pod) {
	p := ps.promise(pod)
	ps.count(p, Unjudged)
	ps.report.takeBack(pod.UID)
	ps.forget(p)
}

// observeAgain notes that the built-in has marked a pod that was already terminating. A pod that began to terminate
// just before does not count, because the built-in had not seen that yet.
func (ps *promises) observeAgain(pod *podcache.Pod, left, at time.Time) {
	const crossed = time.Second / 2
	if ps.byNode[pod.Node][pod.UID] != nil || at.Sub(left) <= crossed {
		return
	}
	p := ps.promise(pod)
	p.left, p.leftSeen, p.judged = at, at, true
	ps.count(p, Twice)
	ps.tell(p, Twice, "it was already terminating when the built-in marked it for deletion", at)
}
