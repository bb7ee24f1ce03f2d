// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Continues reports whether a NoExecute taint goes on in another of the same node's next version: it has the same key,
// or one of the two names of one cause, not-ready and unreachable.
func Continues(known, next corev1.Taint) bool {
	return known.Key == next.Key || isNotReady(known.Key) && isNotReady(next.Key)
}

// isNotReady tells the two names of one cause: the node is not ready.
func isNotReady(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable
}

// Continue returns a taint as the continuation of one that was known before. With the same value it counts from the
// earlier of the two; with another it remembers the value before, whose deadlines stay.
func Continue(known, next Taint) Taint {
	if HasOtherValue(known, next) {
		next.Before = withBefore(known)
		return next
	}
	if known.Since.Before(next.Since) {
		next.Since = known.Since
	}
	if next.Key == known.Key {
		next.Before = known.Before
	}
	return next
}

// HasOtherValue reports whether a taint goes on under the same key with another value.
func HasOtherValue(known, next Taint) bool {
	return next.Key == known.Key && next.Value != known.Value
}

// mostValues is how many values of one taint are remembered: the newest, and the first, as deadlines are mostly its.
const mostValues = 16

// withBefore returns the values that a taint has had, newest first.
func withBefore(known Taint) []Taint {
	all := slices.Concat([]Taint{{Taint: known.Taint, Since: known.Since}}, known.Before)
	if len(all) > mostValues {
		all = slices.Delete(all, mostValues-1, len(all)-1)
		all[mostValues-1].Forgotten = true
	}
	return all
}

// Advance returns the NoExecute taints of a node's next version, seen at an instant, given those of the version before.
// With none before it is what somebody counts who sees the node for the first time.
func Advance(known []Taint, next []corev1.Taint, seen time.Time) []Taint {
	var all []Taint
	for _, taint := range next {
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		advanced := Taint{Taint: taint, Since: Since(taint.TimeAdded, seen)}
		for _, before := range known {
			if Continues(before.Taint, taint) {
				advanced = Continue(before, advanced)
			}
		}
		all = append(all, advanced)
	}
	joinCauses(all)
	return all
}

// joinCauses makes not-ready and unreachable, when a node has both, count from the earlier of the two.
func joinCauses(all []Taint) {
	for i := range all {
		for _, other := range all {
			if all[i].Key != other.Key && Continues(other.Taint, all[i].Taint) {
				all[i] = Continue(other, all[i])
			}
		}
	}
}
