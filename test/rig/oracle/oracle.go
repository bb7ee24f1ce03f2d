// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oracle tells tests when a pod must leave its node. It is the rule of docs/concepts.md, written a second time,
// so that no test judges package verdict with verdict's own arithmetic. It shares no code with verdict and taints.
//
// # The rule
//
// For every NoExecute taint on the node of a pod, the first toleration in list order that matches the taint counts.
// The pod must leave
//
//   - never, if that toleration sets no tolerationSeconds;
//   - at start + tolerationSeconds, if it sets them (zero or less add nothing; the last deadline is in the year 9999);
//   - at start, if no toleration matches;
//
// where start is the later of the instants from which the taint counts and at which the pod was bound. The earliest of
// these instants, over all taints, is when the pod is due. Only what holds now matters: a change of the taints or the
// tolerations before the pod has left makes another deadline.
//
// # When a taint starts to count
//
//   - A taint counts from when it was first there to be seen.
//   - A timeAdded is in whole seconds, rounded down. It makes the taint count from the end of its second, if that is
//     earlier.
//     A timeAdded in the future tells nothing.
//   - A taint continues while its key and effect stay on the node. It counts from the earliest instant that any of its
//     timeAdded told, so a later one, or none, postpones nothing.
//   - not-ready and unreachable are one cause with two names: one continues as the other, and where a node has both
//     they count from the earlier.
//   - With another value, a taint counts again: from when that value was first seen, from its timeAdded, or from when
//     it counted before if its timeAdded stays and still says so.
//   - A deadline that an earlier value has set stays as long as the pod tolerates that value and all later ones for a
//     while, and was bound before the next value counted. One that it tolerates indefinitely, or not at all, ends
//     them.
//   - What the controllers under test write to a node themselves tells nothing new.
//
// A process that starts sees everything for the first time: its taints are [Next] without any before. It may date a
// timeAdded by a clock that is behind.
//
// # Bounds
//
// Tests only know that a change happened between the call and its answer, so every instant is a [Span]. No controller
// may evict a pod before the beginning of its span, however early it saw each change, and a controller that sees each
// change at once evicts the pod by the end. In virtual time both are the same.
//
// # Policies
//
// [Policies] says whether EvictionPolicies object to the eviction of a due pod. It shares no code with internal/policy.
package oracle

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// Rule is the rule with the feature gates that it depends on. The zero value has Kubernetes' defaults.
type Rule struct {
	// ComparisonOperators is the feature gate TaintTolerationComparisonOperators: tolerations may ask for Gt and Lt.
	ComparisonOperators bool
}

// Pod is what the rule needs to know about a pod.
type Pod struct {
	Tolerations []corev1.Toleration
	Bound       Span
}

// Due returns when a pod must leave a node with these taints: Never if it stays.
func (r Rule) Due(pod Pod, taints []Taint) Span {
	due := At(Never)
	for _, taint := range taints {
		due = due.Min(r.dueBy(pod, taint))
	}
	return due
}

// dueBy is when a pod must leave because of one taint, by its value or by one that it had before.
func (r Rule) dueBy(pod Pod, taint Taint) Span {
	due, counts := r.dueByValue(pod, taint)
	next := taint.Since
	for _, value := range taint.Values {
		by, counted := r.dueByValue(pod, value)
		if !counts || !counted || !pod.Bound.From.Before(next.To) {
			break
		}
		if !pod.Bound.To.Before(next.From) { // nobody can say which came first
			by.To = Never
		}
		due, next = due.Min(by), value.Since
	}
	return due
}

// dueByValue is when a pod must leave because of a taint with its current value, and whether the pod tolerates it for a
// limited time.
func (r Rule) dueByValue(pod Pod, taint Taint) (due Span, counts bool) {
	start := taint.Since.Max(pod.Bound)
	switch first := r.First(pod.Tolerations, taint.Taint); {
	case first == nil:
		return start, false
	case first.TolerationSeconds == nil:
		return At(Never), false
	default:
		return start.Plus(*first.TolerationSeconds), *first.TolerationSeconds > 0
	}
}

// First is the first toleration in list order that matches a taint, nil if none does.
func (r Rule) First(tolerations []corev1.Toleration, taint corev1.Taint) *corev1.Toleration {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(logr.Discard(), &taint, r.ComparisonOperators) {
			return &tolerations[i]
		}
	}
	return nil
}

// State is what is true of a pod from a change of the pod on.
type State struct {
	At          Span
	Tolerations []corev1.Toleration
	// Spared says that it must not be evicted whatever its tolerations: it is a mirror pod, terminates, or is gone.
	Spared bool
}

// Promise is what must happen to a pod.
type Promise struct {
	// Due is when it must leave: from Never on if it stays. It is from an instant to Never if it may leave or stay, as
	// nobody can say what came first, its deadline or a change.
	Due Span
	// Cancelled are the deadlines that a change took away, or replaced by another, before the pod had left.
	Cancelled []Span
}

// Promise returns what must happen to a pod, given its history and the history of its node. Each is sorted by time.
func (r Rule) Promise(node []Version, bound Span, pod []State) Promise {
	promise, pending := Promise{Due: At(Never)}, At(Never)
	var taints []Taint
	state := State{Spared: true} // it is not there yet
	for len(node)+len(pod) > 0 {
		var at Span
		if len(pod) == 0 || len(node) > 0 && node[0].At.From.Before(pod[0].At.From) {
			at, taints, node = node[0].At, Next(taints, node[0]), node[1:]
		} else {
			at, state, pod = pod[0].At, pod[0], pod[1:]
		}
		due := At(Never)
		if !state.Spared {
			due = r.Due(Pod{state.Tolerations, bound}, taints)
		}
		if pending != At(Never) && due != pending {
			promise.Cancelled = append(promise.Cancelled, pending)
		}
		pending = due
		due, until := due.Max(at), nextChange(node, pod)
		if due.From.Before(until.To) {
			promise.Due = Span{Earlier(promise.Due.From, due.From), due.To}
		}
		if due.To.Before(until.From) {
			return promise
		}
		promise.Due.To = Never
	}
	return promise
}

// nextChange is when the first of what is left happens.
func nextChange(node []Version, pod []State) Span {
	next := At(Never)
	if len(node) > 0 {
		next = node[0].At
	}
	if len(pod) > 0 && pod[0].At.From.Before(next.From) {
		next = pod[0].At
	}
	return next
}

// Version is a node as one write left it.
type Version struct {
	At     Span // when it was written, and could be seen first
	Taints []corev1.Taint
	// Ours says that a controller under test wrote it.
	Ours bool
	// Behind is how far behind the clock that dates what is recorded may be.
	Behind time.Duration
}

// Taint is a NoExecute taint on its node, and from when it counts with the value that it has.
type Taint struct {
	corev1.Taint
	Seen  Span // when it was first there to be seen
	Since Span
	// Record is the timeAdded that it should have: the earliest that it had, or the second in which it was seen.
	Record time.Time
	// Future says that it has only ever had one timeAdded, which was in the future.
	Future bool
	// Values are those that it had before, the newest first.
	Values []Taint
}

// Next returns the NoExecute taints of a node's next version, given those of the version before.
func Next(before []Taint, v Version) []Taint {
	var all []Taint
	for _, taint := range v.Taints {
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		next := first(taint, v)
		for _, was := range before {
			if oneCause(was.Key, taint.Key) {
				next = next.after(was, v.Ours)
			}
		}
		all = append(all, next)
	}
	for i := range all {
		for _, other := range all {
			if all[i].Key != other.Key && oneCause(all[i].Key, other.Key) {
				all[i] = all[i].join(other)
			}
		}
	}
	return all
}

// first is a taint as one version of its node shows it.
func first(taint corev1.Taint, v Version) Taint {
	t := Taint{Taint: taint, Seen: v.At, Since: v.At, Record: v.At.From.Truncate(time.Second)}
	switch {
	case taint.TimeAdded.IsZero():
	case taint.TimeAdded.After(v.At.To):
		t.Future = true
	default:
		t.Since, t.Record = Dated(taint.TimeAdded.Time, v.At), taint.TimeAdded.Time
		t.Since.To = Earlier(t.Since.To.Add(v.Behind), v.At.To)
	}
	return t
}

// oneCause reports whether two keys say the same of a node.
func oneCause(a, b string) bool {
	notReady := []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}
	return a == b || slices.Contains(notReady, a) && slices.Contains(notReady, b)
}

// after returns the taint as one that was there before, with the same value or another.
func (t Taint) after(was Taint, ours bool) Taint {
	stays := t.TimeAdded.Equal(was.TimeAdded)
	if t.Key == was.Key && t.Value != was.Value {
		if stays && was.told() {
			t.Since = was.Since
		}
		earlier := was.Values
		was.Values = nil
		t.Values = append([]Taint{was}, earlier...)
		return t
	}
	record := t.Record
	t = t.join(was)
	t.Future = was.Future && stays
	if ours {
		t.Since = was.Since
		if !stays {
			t.Record = record
		}
	}
	if t.Key == was.Key {
		t.Values = was.Values
	}
	return t
}

// told reports whether the timeAdded that a taint has is what it counts by.
func (t Taint) told() bool { return !t.TimeAdded.IsZero() && t.TimeAdded.Time.Equal(t.Record) }

// join returns the taint, counting from when another taint with the same cause counts, if that is earlier.
func (t Taint) join(other Taint) Taint {
	t.Seen, t.Since = t.Seen.Min(other.Seen), t.Since.Min(other.Since)
	if other.Record.Before(t.Record) || t.Future && !other.Future && other.Record.Equal(t.Record) {
		t.Record, t.Future = other.Record, false
	}
	return t
}

// Span is an instant that is known within bounds, or a time from one instant to another.
type Span struct{ From, To time.Time }

// latest is the last deadline there is, as RFC 3339 can write no later one.
var latest = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// Never stands for the instant of what does not happen.
var Never = latest.AddDate(9999, 0, 0)

// At is an instant that is known exactly.
func At(instant time.Time) Span { return Span{instant, instant} }

// Between is an instant that is not before one and not after another.
func Between(from, to time.Time) Span { return Span{from, to} }

// Dated is when something happened that was first seen at an instant, and that the API recorded to the second, rounded
// down: at the end of that second, or when it was seen if that was earlier, or nothing was recorded.
func Dated(recorded time.Time, seen Span) Span {
	if recorded.IsZero() {
		return seen
	}
	return seen.Min(At(EndOfSecond(recorded)))
}

// EndOfSecond is the end of the second to which the API rounded an instant down.
func EndOfSecond(recorded time.Time) time.Time {
	return recorded.Truncate(time.Second).Add(time.Second)
}

// Min is the earlier of two instants.
func (s Span) Min(other Span) Span { return Span{Earlier(s.From, other.From), Earlier(s.To, other.To)} }

// Max is the later of two instants.
func (s Span) Max(other Span) Span { return Span{Later(s.From, other.From), Later(s.To, other.To)} }

// Plus is the instant some seconds later.
func (s Span) Plus(seconds int64) Span { return Span{plus(s.From, seconds), plus(s.To, seconds)} }

// plus knows that neither a Duration nor a date can hold all seconds that a toleration can set.
func plus(start time.Time, seconds int64) time.Time {
	switch {
	case seconds <= 0:
		return start
	case seconds >= latest.Unix()-start.Unix():
		return Later(latest, start)
	}
	return time.Unix(start.Unix()+seconds, int64(start.Nanosecond())).UTC()
}

// Meets reports whether two times have an instant in common.
func (s Span) Meets(other Span) bool { return !s.From.After(other.To) && !other.From.After(s.To) }

// Earlier is the earlier of two instants.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Later is the later of two instants.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
