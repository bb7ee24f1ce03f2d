// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// This file is the rule of docs/concepts.md, written a second time from its text and with bounds in the place of instants:
// when exactly a replica saw something is not known here. The earliest bound is what no replica may undercut, however early
// it saw the change; the latest is what one does not exceed that has seen everything at once.

// counting is a NoExecute taint on a node and the instant from which it counts.
type counting struct {
	corev1.Taint

	sight span // when it could be seen first
	since span
}

func (c counting) same(other counting) bool {
	return c.Key == other.Key && c.Value == other.Value && c.TimeAdded.Equal(other.TimeAdded) && c.since == other.since
}

// advance returns the NoExecute taints of a node's next version, given those of the version before and when it was written.
func advance(before []counting, taints []corev1.Taint, written span, byKeeper bool) []counting {
	var next []counting
	for _, taint := range taints {
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		next = append(next, since(find(before, taint), taint, written, byKeeper))
	}
	return next
}

func find(taints []counting, taint corev1.Taint) *counting {
	for i := range taints {
		if taints[i].Key == taint.Key {
			return &taints[i]
		}
	}
	return nil
}

// since says from when a taint counts that is in a version written at the given time.
//
// Without a timeAdded it counts from its first sight, and goes on counting while key and value stay. With one it counts from
// that second: from its first sight if that lies within the second or before it, as of a timeAdded in the future, otherwise
// from the end of the second.
//
// What the replicas themselves write makes no taint count from earlier: they write down what they saw.
func since(before *counting, taint corev1.Taint, written span, byKeeper bool) counting {
	now := counting{Taint: taint, sight: written, since: written}
	goesOn := before != nil && before.Value == taint.Value
	switch {
	case goesOn && (taint.TimeAdded.IsZero() || byKeeper && before.TimeAdded.IsZero()):
		now.sight, now.since = before.sight, before.since
		return now
	case taint.TimeAdded.IsZero():
		return now
	case before != nil && (taint.TimeAdded.Equal(before.TimeAdded) || !taint.TimeAdded.After(before.since.latest)):
		now.sight = before.sight // otherwise it was set anew
	}
	now.since = now.sight.notAfter(endOfSecond(taint.TimeAdded.Time))
	return now
}

// lastingSeconds is when tolerationSeconds are as good as for ever: they end after this program.
const lastingSeconds = 1 << 30

// dueOf says when a pod has to leave a node with the given taints, if it has to.
func dueOf(tolerations []corev1.Toleration, bound span, taints []counting) (due span, leaves bool) {
	for i := range taints {
		one, evicts := dueFor(tolerations, bound, &taints[i])
		switch {
		case !evicts:
		case !leaves:
			due, leaves = one, true
		default:
			due = due.minimum(one)
		}
	}
	return due, leaves
}

// dueFor is the rule for one taint: the first toleration that matches counts.
func dueFor(tolerations []corev1.Toleration, bound span, taint *counting) (due span, leaves bool) {
	start := taint.since.maximum(bound)
	for i := range tolerations {
		if !tolerations[i].ToleratesTaint(logr.Discard(), &taint.Taint, false) {
			continue
		}
		seconds := tolerations[i].TolerationSeconds
		if seconds == nil || *seconds >= lastingSeconds {
			return span{}, false
		}
		return start.plus(time.Duration(max(*seconds, 0)) * time.Second), true
	}
	return start, true
}
