// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

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
