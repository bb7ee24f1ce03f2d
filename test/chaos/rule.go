// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// This file is the rule of docs/concepts.md, written a second time from its text and with bounds in the place of
// instants: when exactly a replica saw something is not known here. The earliest bound is what no replica may undercut,
// however early it saw the change; the latest is what one does not exceed that has seen everything at once.

// counting is a NoExecute taint on a node and the instant from which it counts.
type counting struct {
	corev1.Taint

	sight  span // when it could be seen first
	since  span
	values []counting // that it had before, without a break, newest first
}

func (c counting) same(other counting) bool {
	return c.Key == other.Key && c.Value == other.Value && c.TimeAdded.Equal(other.TimeAdded) && c.since == other.since &&
		len(c.values) == len(other.values)
}

// advance returns the NoExecute taints of a node's next version, given those of the version before and when it was
// written.
//
// A taint without a timeAdded counts from its first sight. With one it counts from that second: from its first sight if
// that lies within the second or before it, as of a timeAdded in the future, otherwise from the end of the second.
//
// A taint that is in both versions goes on, whatever its timeAdded has become: it counts from the earlier of the two.
// So do not-ready and unreachable, which are one cause, while a node has one of them or both. What the replicas
// themselves write makes no taint count from earlier: they write down from when it counts.
//
// With another value it counts anew, but a deadline that it has set by the value before stays.
func advance(before []counting, taints []corev1.Taint, written span, byKeeper bool) []counting {
	var next []counting
	for _, taint := range taints {
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		now := counting{Taint: taint, sight: written, since: written}
		if !taint.TimeAdded.IsZero() {
			now.since = written.notAfter(endOfSecond(taint.TimeAdded.Time))
		}
		for _, was := range before {
			if was.goesOnAs(taint) {
				now = now.after(was, byKeeper)
			}
		}
		next = append(next, now)
	}
	return oneCause(next)
}

// goesOnAs reports whether a taint goes on as the given one of the node's next version.
func (c counting) goesOnAs(next corev1.Taint) bool {
	return c.Key == next.Key || notReady(c.Key) && notReady(next.Key)
}

// notReady reports whether a key is one of the two names of one cause.
func notReady(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable
}

// after returns the taint as one that was there before.
func (c counting) after(was counting, byKeeper bool) counting {
	switch {
	case c.Key == was.Key && c.Value != was.Value:
		c.values = append([]counting{was}, was.values...)
		return c
	case c.Key == was.Key:
		c.values = was.values
	}
	if byKeeper {
		c.sight, c.since = was.sight, was.since
		return c
	}
	c.sight, c.since = c.sight.minimum(was.sight), c.since.minimum(was.since)
	return c
}

// oneCause makes the two names of one cause, where a node has both, count from the earlier of the two.
func oneCause(taints []counting) []counting {
	for i := range taints {
		for _, other := range taints {
			if taints[i].Key != other.Key && other.goesOnAs(taints[i].Taint) {
				taints[i].sight, taints[i].since = taints[i].sight.minimum(other.sight), taints[i].since.minimum(other.since)
			}
		}
	}
	return taints
}

// unknown is how little is known of the API server's clock after one answer: a Date has seconds.
const unknown = time.Second

// anew returns the taints as one counts them at the latest who sees them by an instant without having seen what was
// before: from the end of the second that timeAdded says, when the clock that is behind has come to it, or from the
// sight if that is earlier or timeAdded says nothing.
func anew(taints []counting, seen time.Time, behind time.Duration) []counting {
	var all []counting
	for _, t := range taints {
		since := at(seen)
		if !t.TimeAdded.IsZero() {
			end := endOfSecond(t.TimeAdded.Time)
			since = span{earlier(end, seen), earlier(end.Add(unknown+behind), seen)}
		}
		all = append(all, counting{Taint: t.Taint, sight: at(seen), since: since})
	}
	return all
}

func find(taints []counting, taint corev1.Taint) *counting {
	for i := range taints {
		if taints[i].Key == taint.Key {
			return &taints[i]
		}
	}
	return nil
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

// dueFor is the rule for one taint: the first toleration that matches counts. A deadline that the taint has set by a
// value that it had before stays, as long as every value since is tolerated for a while only.
func dueFor(tolerations []corev1.Toleration, bound span, taint *counting) (due span, leaves bool) {
	due, leaves, counts := dueForValue(tolerations, bound, taint)
	for i := range taint.values {
		before, _, countsBefore := dueForValue(tolerations, bound, &taint.values[i])
		if !counts || !countsBefore {
			break
		}
		due = due.minimum(before)
	}
	return due, leaves && due.earliest.Before(distantFuture)
}

// dueForValue is the rule for one taint by its present value alone. It counts if it is tolerated for a while.
func dueForValue(tolerations []corev1.Toleration, bound span, taint *counting) (due span, leaves, counts bool) {
	start := taint.since.maximum(bound)
	for i := range tolerations {
		if !tolerations[i].ToleratesTaint(logr.Discard(), &taint.Taint, false) {
			continue
		}
		switch seconds := tolerations[i].TolerationSeconds; {
		case seconds == nil:
			return span{}, false, false
		case *seconds >= lastingSeconds:
			return at(distantFuture), true, true
		default:
			return start.plus(time.Duration(max(*seconds, 0)) * time.Second), true, true
		}
	}
	return start, true, false
}
