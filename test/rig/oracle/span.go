// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import "time"

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
