// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// run is a NoExecute taint that is on its node without a break, as far as this process knows. It goes on
// while the node has a taint of the same key and effect, whatever becomes of its value and its timeAdded, and
// while not-ready becomes unreachable or the other way round: that is one cause with two names.
type run struct {
	verdict.Taint // by this machine's clock

	byServer verdict.Taint // the same by the API server's: this machine's may have been wrong, and be set since

	seen  sight        // of the run's first taint, by this process
	shown time.Time    // when this process first saw the present timeAdded, by the API server's clock
	from  string       // the resourceVersion of the node in which the run was first seen
	add   *metav1.Time // what its timeAdded should be: the earliest that it had, or the first sight
}

// sight is an instant at which this process saw something.
type sight struct {
	at       time.Time // by this machine's clock
	byServer time.Time // by the API server's, where that is known to differ
}

// begin returns the run of a taint that is seen for the first time.
func begin(taint corev1.Taint, seen sight, version string) run {
	r := run{
		Taint:    verdict.Taint{Taint: taint, Since: verdict.Since(taint.TimeAdded, seen.at)},
		byServer: verdict.Taint{Taint: taint, Since: verdict.Since(taint.TimeAdded, seen.byServer)},
		seen:     seen,
		shown:    seen.byServer,
		from:     version,
		add:      taint.TimeAdded,
	}
	if taint.TimeAdded.IsZero() {
		r.add = &metav1.Time{Time: seen.byServer.Truncate(time.Second)}
	}
	return r
}

// after returns the run as the continuation of one that was known before: it began with that one.
func (r run) after(known run) run {
	if known.seen.at.After(r.seen.at) { // the wall clock was set back
		known.seen.at = r.seen.at
		known.Since = earlier(known.Since, r.seen.at)
	}
	if r.TimeAdded.Equal(known.add) { // nothing that is not known, and maybe written by a clock that is wrong: ours
		r.Since, r.byServer.Since = known.Since, known.byServer.Since
	}
	next := run{
		Taint:    verdict.Continue(known.Taint, r.Taint),
		byServer: verdict.Continue(known.byServer, r.byServer),
		seen:     known.seen,
		shown:    r.shown,
		from:     known.from,
		add:      r.add,
	}
	same := r.TimeAdded.Equal(known.TimeAdded)
	if same && !r.TimeAdded.IsZero() {
		next.shown = known.shown
	}
	if verdict.HasOtherValue(known.Taint, r.Taint) {
		return next
	}
	if begun := known.begun(); same {
		next.add = known.add
	} else if begun.Before(next.add) {
		next.add = begun
	}
	return next
}

// begun is what a timeAdded that somebody writes over the run's has to be: what that said, unless it was in the future
// when it was seen. From then on the run counts.
func (r run) begun() *metav1.Time {
	if r.add.After(r.shown) {
		return &metav1.Time{Time: r.shown.Truncate(time.Second)}
	}
	return r.add
}

// joinCauses makes not-ready and unreachable, when a node has both, count from the earlier of the two.
func joinCauses(runs []run) {
	for i := range runs {
		for _, other := range runs {
			if runs[i].Key != other.Key && verdict.Continues(other.Taint.Taint, runs[i].Taint.Taint) {
				runs[i] = runs[i].after(other)
			}
		}
	}
}

// same reports whether two runs make no difference to any verdict or stamp.
func (r run) same(other run) bool {
	return r.Key == other.Key && r.Value == other.Value && r.TimeAdded.Equal(other.TimeAdded) &&
		r.Since.Equal(other.Since) && len(r.Before) == len(other.Before)
}

// unstamped reports whether the taint's timeAdded does not say from when it counts: it has none, or a later one.
func (r run) unstamped() bool { return r.TimeAdded.IsZero() || r.add.Before(r.TimeAdded) }

// outlasts reports whether a taint that is seen after a gap of the watch is this one, and was not taken off and set
// again unseen: only its timeAdded says so.
func (r run) outlasts(taint corev1.Taint) bool { return r.Key == taint.Key && r.tells(taint.TimeAdded) }

// tells reports whether a taint of the same key and effect is this one, by its timeAdded: the one that it should have.
// One that was in the future when it was seen tells nothing, and neither does one with which somebody wrote over an
// earlier: it can be that of a later setting.
func (r run) tells(timeAdded *metav1.Time) bool {
	return !timeAdded.IsZero() && !timeAdded.After(r.shown) && timeAdded.Equal(r.add)
}

// toTheSecond returns the run as its timeAdded alone tells it: one that was taken off and set again unseen, within the
// same second, has the same. So it counts from the end of that second.
func (r run) toTheSecond() run {
	r.Taint, r.byServer = endOfSecond(r.Taint), endOfSecond(r.byServer)
	return r
}

func endOfSecond(taint verdict.Taint) verdict.Taint {
	taint.Since = taint.Since.Add(time.Second - 1).Truncate(time.Second)
	taint.Before = slices.Clone(taint.Before)
	for i, before := range taint.Before {
		taint.Before[i] = endOfSecond(before)
	}
	return taint
}

// coversVersion reports whether the node had the taint in one of its versions for certain: it lies between the one in
// which the run was first seen and the newest that the watch has brought.
func (r run) coversVersion(version, newest string) bool {
	return version == newest || notAfter(r.from, version) && notAfter(version, newest)
}

// notAfter compares two resourceVersions of one node, which the API server counts up (KEP-5504).
func notAfter(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
