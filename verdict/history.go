// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Taint is a NoExecute taint on its node, with its history as far as it bears on deadlines. A taint continues while its
// key and effect stay on the node, whatever happens to its value and timeAdded, and when not-ready becomes unreachable
// or the other way round.
type Taint struct {
	corev1.Taint
	// Since is the instant from which the taint counts with its current value.
	Since time.Time
	// Before are the values that it had before, newest first, without a gap before the current one.
	Before []Past
	// Add is the timeAdded that the taint should have: the earliest that it had, or the second in which it was seen.
	Add *metav1.Time
	// Ends is the instant at which that second had certainly ended.
	Ends time.Time
	// Future means that its timeAdded was in the future when it was first seen, and that no other is known. Such a
	// timeAdded says nothing about the taint.
	Future bool
	// From is the resourceVersion of the node in which the taint was first seen, without a gap since.
	From string
}

// Past is a value that a taint had before.
type Past struct {
	Value string
	Since time.Time
	// Forgotten means that there were unknown values between this and the next newer one.
	Forgotten bool
}

// Seen is how a version of a node was seen.
type Seen struct {
	Sight
	// Version is the node's resourceVersion.
	Version string
	// Gap means that versions before this one may have been missed: a taint may have been removed and added again.
	Gap bool
	// NeverStamped means that nothing will write a timeAdded to the node's taints that have none.
	NeverStamped bool
}

// SeenAt is how an observer that uses its own clock as the API server's, such as a command line or a simulator, sees
// something without missing anything.
func SeenAt(at time.Time) Seen {
	return Seen{Sight: Sight{At: at, Earliest: at, Latest: at, Behind: at}}
}

// Advance returns the NoExecute taints of a node's next version, given those of the version before. Without a previous
// version, it returns what counts for an observer that sees the node for the first time.
func Advance(known []Taint, next []corev1.Taint, seen Seen) []Taint {
	var all []Taint
	for _, taint := range next {
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		advanced := begin(taint, seen)
		for _, before := range known {
			if before.goesOn(taint, seen) {
				advanced = advanced.after(before, seen)
			}
		}
		all = append(all, advanced)
	}
	joinCauses(all)
	return all
}

// begin returns a taint that is seen for the first time.
func begin(taint corev1.Taint, seen Seen) Taint {
	next := Taint{Taint: taint, Since: seen.Since(taint.TimeAdded), Add: taint.TimeAdded, From: seen.Version}
	next.Future = !taint.TimeAdded.IsZero() && taint.TimeAdded.After(seen.Latest)
	if next.Future || taint.TimeAdded.IsZero() {
		next.Add = seen.Second()
	}
	next.Ends = seen.Ends(next.Add.Time)
	return next
}

// goesOn is the rule that decides whether a taint continues. Without a gap the key decides. Across a gap, only the same
// value with the timeAdded that the taint should have shows that it continues. If nothing ever writes timeAdded, its
// absence before and after the gap shows this, too. Otherwise countdowns would restart with each list and never end.
func (t Taint) goesOn(next corev1.Taint, seen Seen) bool {
	switch {
	case !seen.Gap:
		return Continues(t.Taint, next)
	case t.Key != next.Key, t.Value != next.Value:
		return false
	case next.TimeAdded.IsZero():
		return seen.NeverStamped && t.TimeAdded.IsZero()
	}
	return t.ToldBy(next.TimeAdded)
}

// Continues reports whether a NoExecute taint continues as another in the node's next version: because the key is the
// same, or because both are names of one cause, not-ready and unreachable.
func Continues(known, next corev1.Taint) bool {
	return known.Key == next.Key || isNotReady(known.Key) && isNotReady(next.Key)
}

// isNotReady recognizes the two names of one cause: the node is not ready.
func isNotReady(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable
}

// ToldBy reports whether a timeAdded shows that a taint of the same key and effect is this one, because it is the
// timeAdded that this taint should have. It shows that only to the second.
func (t Taint) ToldBy(timeAdded *metav1.Time) bool {
	return !t.Future && !timeAdded.IsZero() && timeAdded.Equal(t.Add)
}

// ToTheSecond returns the taint as far as its timeAdded alone determines it. A taint that was removed and added again,
// unseen, within the same second has the same timeAdded. It therefore counts from the end of that second, and earlier
// values are unknown.
func (t Taint) ToTheSecond() Taint {
	t.Since, t.Before = later(t.Since, t.Ends), nil
	return t
}

// Unstamped reports whether the taint's timeAdded does not say from when it counts, because it has none or a later one.
func (t Taint) Unstamped() bool {
	return t.TimeAdded.IsZero() || !t.Future && t.Add.Before(t.TimeAdded)
}

// Same reports whether two taints lead to the same verdicts and timeAdded.
func (t Taint) Same(other Taint) bool {
	return t.Key == other.Key && t.Value == other.Value && t.TimeAdded.Equal(other.TimeAdded) &&
		t.Since.Equal(other.Since) && len(t.Before) == len(other.Before)
}

// after returns the taint, just seen, as the continuation of one that was known before. With the same value it counts
// from the earlier of the two. With another value it remembers the previous value, whose deadlines remain.
func (t Taint) after(known Taint, seen Seen) Taint {
	switch {
	case !seen.Gap:
		t.From = known.From
	case t.TimeAdded.IsZero(): // nothing from before the gap is ever written
		known.Add, known.Ends, known.Future, known.TimeAdded = t.Add, t.Ends, t.Future, nil
	default:
		known = known.ToTheSecond()
	}
	// A timeAdded that it had, or should have, says nothing new, and may have been written with a wrong clock: ours.
	if t.Key == known.Key && t.Value != known.Value {
		if t.TimeAdded.Equal(known.TimeAdded) && known.ToldBy(t.TimeAdded) {
			t.Since = known.Since
		}
		t.Before = known.past()
		return t
	}
	if t.Since = earlier(t.Since, known.Since); t.TimeAdded.Equal(known.Add) {
		t.Since = known.Since
	}
	if t.Key == known.Key {
		t.Before = known.Before
	}
	switch {
	case t.TimeAdded.Equal(known.TimeAdded):
		t.Add, t.Ends, t.Future = known.Add, known.Ends, known.Future
	case !t.Add.Before(known.Add):
		t.Add, t.Ends, t.Future = known.Add, known.Ends, false
	}
	return t
}

// mostValues is how many values of one taint are remembered: the newest, and the first, which usually sets the
// deadline.
const mostValues = 16

// past returns the values that a taint has had, newest first, including the current one.
func (t Taint) past() []Past {
	all := slices.Concat([]Past{{Value: t.Value, Since: t.Since}}, t.Before)
	if len(all) > mostValues {
		all = slices.Delete(all, mostValues-1, len(all)-1)
		all[mostValues-1].Forgotten = true
	}
	return all
}

// joinCauses makes not-ready and unreachable, when a node has both, count from the earlier of the two. A timeAdded in
// the future says nothing, so the other counts.
func joinCauses(all []Taint) {
	for i := range all {
		for _, other := range all {
			if all[i].Key == other.Key || !Continues(other.Taint, all[i].Taint) {
				continue
			}
			all[i].Since = earlier(all[i].Since, other.Since)
			if other.Add.Before(all[i].Add) || all[i].Future && !other.Future && other.Add.Equal(all[i].Add) {
				all[i].Add, all[i].Ends, all[i].Future = other.Add, other.Ends, false
			}
		}
	}
}
