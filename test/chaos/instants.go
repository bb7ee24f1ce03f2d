// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// span is an instant that is known within bounds, or a time from one instant to another. Everything runs on one
// machine, so all instants are of one clock.
type span struct{ earliest, latest time.Time }

// at is an instant that is known exactly.
func at(instant time.Time) span { return span{instant, instant} }

// notAfter returns the span with its bounds cut off at the given instant: the earlier of two instants.
func (s span) notAfter(limit time.Time) span {
	return span{earlier(s.earliest, limit), earlier(s.latest, limit)}
}

// minimum is the earlier of two instants that are known within bounds.
func (s span) minimum(other span) span {
	return span{earlier(s.earliest, other.earliest), earlier(s.latest, other.latest)}
}

// maximum is the later of two instants that are known within bounds.
func (s span) maximum(other span) span {
	return span{later(s.earliest, other.earliest), later(s.latest, other.latest)}
}

func (s span) plus(d time.Duration) span { return span{s.earliest.Add(d), s.latest.Add(d)} }

// meets reports whether two times have an instant in common.
func (s span) meets(other span) bool {
	return !s.earliest.After(other.latest) && !other.earliest.After(s.latest)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earliestOf is the earliest of some instants.
func earliestOf(all []time.Time, one time.Time) time.Time {
	for _, instant := range all {
		one = earlier(one, instant)
	}
	return one
}

// endOfSecond is when the second ends to which the API rounded an instant down.
func endOfSecond(recorded time.Time) time.Time {
	return recorded.Truncate(time.Second).Add(time.Second)
}

// distantFuture is when that happens which does not happen while this program runs.
var distantFuture = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)
