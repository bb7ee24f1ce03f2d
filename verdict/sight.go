// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sight is when, and on which clocks, an observer saw something. Instants at which something was seen or began are all
// on one timeline of the observer, which cannot be set: a process uses its monotonic clock. What the API server
// recorded is on other clocks.
type Sight struct {
	// At is when it was seen, on the timeline.
	At time.Time
	// Earliest and Latest bound the time on the API server's clock then. If Earliest is zero, that time is not known, and
	// nothing that the API server recorded can be dated.
	Earliest, Latest time.Time
	// Behind is the earliest time that the clock that is behind, the API server's or this machine's, can have shown then.
	Behind time.Time
}

// Start returns the instant, on the timeline, from which something counts that the API recorded to the second, rounded
// down. It happened before that second ended and before it was seen, so the earlier of the two is never too early, and
// a pod is never evicted earlier than promised. Anything that was never recorded, or was recorded in the future, counts
// from when it was seen.
func (s Sight) Start(recorded time.Time) time.Time {
	end := recorded.Truncate(time.Second).Add(time.Second)
	if recorded.IsZero() || s.Behind.Before(end) {
		return s.At
	}
	return s.At.Add(end.Sub(s.Behind))
}

// Since returns the instant from which a taint counts according to its timeAdded. Without a timeAdded, it is the sight.
func (s Sight) Since(timeAdded *metav1.Time) time.Time {
	if timeAdded == nil {
		return s.At
	}
	return s.Start(timeAdded.Time)
}

// Ends returns the instant at which a second of the API server's clock, which can be that of the sight, had certainly
// ended.
func (s Sight) Ends(second time.Time) time.Time {
	end := second.Truncate(time.Second).Add(time.Second)
	if s.Earliest.IsZero() {
		return s.At.Add(time.Second)
	}
	return later(s.At.Add(end.Sub(s.Earliest)), s.Start(second))
}

// Second returns the timeAdded to write for what was seen: the latest second that the API server's clock can have
// shown, so that the end of this second is never before the sight.
func (s Sight) Second() *metav1.Time { return &metav1.Time{Time: s.Latest.Truncate(time.Second)} }

// Bound returns when a pod was bound to its node, as the API recorded it to the second: the
// transition time of its condition PodScheduled, else its creation time. [Sight.Start] dates it.
func Bound(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
