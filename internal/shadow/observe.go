// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// ourMark is how the message of the condition begins when Taintkeeper has set it, and not the built-in.
const ourMark = "Taintkeeper:"

// marked reports whether the built-in has marked the pod for deletion.
func marked(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue &&
			condition.Reason == podcache.EvictionReason && !strings.HasPrefix(condition.Message, ourMark) {
			return true
		}
	}
	return false
}

// deletedAt returns when the API server accepted the delete of a pod that was seen terminating at an instant.
func deletedAt(pod *corev1.Pod, ours func(time.Time) time.Time, seen time.Time) time.Time {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
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
	went := after == nil || after.Flags.Has(podcache.Terminating)
	byBuiltIn := change.Object != nil && marked(change.Object)
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
		p.leaving(v, at, b.unsure(pod.Node))
	}
	p.left, p.leftSeen = left, at
}

// observeOther notes that somebody else has deleted a pod, or that it went while nobody looked.
func (b *book) observeOther(pod *podcache.Pod, at time.Time) {
	p := b.byNode[pod.Node][pod.UID]
	if p == nil {
		return
	}
	if p.reported && !p.settled {
		b.report.count(Never)
	}
	b.went(p, at)
	b.forget(p)
}

// observeTerminating notes what becomes of a pod that terminates.
func (b *book) observeTerminating(before, after *podcache.Pod, byBuiltIn bool, at time.Time) {
	p := b.byNode[before.Node][before.UID]
	if after == nil || !byBuiltIn || p != nil {
		return // it is gone; or it goes, and that was noted
	}
	if before.Flags.Has(podcache.MarkedByTaint) || !after.Flags.Has(podcache.MarkedByTaint) {
		return
	}
	p = b.promise(before)
	p.left, p.leftSeen, p.settled = at, at, true
	b.report.count(Twice)
	b.tell(p, Twice, "it was terminating already when the built-in marked it for deletion", at)
}
