// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sight is how somebody saw something. Instants at which something was seen, or began, are all on one timeline of the
// observer, which nobody can set: a process takes its monotonic clock. What the API server recorded is on other clocks.
type Sight struct {
	// At is when it was seen, on the timeline.
	At time.Time
	// Earliest and Latest are between which times the API server's clock was then. If Earliest is zero that is not known,
	// and nothing that it recorded can be dated.
	Earliest, Latest time.Time
	// Behind is what the clock that is behind can have shown then at the earliest: the API server's, or this machine's.
	Behind time.Time
}

// Start returns the instant, on the timeline, from which something counts that the API recorded to the second, rounded
// down. It happened before its second ended and before it was seen, so the earlier of the two is never too early: a pod
// is never evicted before what it was promised. What was never recorded, or recorded in the future, happened when it
// was seen.
func (s Sight) Start(recorded time.Time) time.Time {
	end := recorded.Truncate(time.Second).Add(time.Second)
	if recorded.IsZero() || s.Behind.Before(end) {
		return s.At
	}
	return s.At.Add(end.Sub(s.Behind))
}

// Since returns the instant from which a taint counts by its timeAdded. Without one it is the sight.
func (s Sight) Since(timeAdded *metav1.Time) time.Time {
	if timeAdded == nil {
		return s.At
	}
	return s.Start(timeAdded.Time)
}

// Ends returns the instant by which a second of the API server's clock, which can be that of the sight, had ended.
func (s Sight) Ends(second time.Time) time.Time {
	end := second.Truncate(time.Second).Add(time.Second)
	if s.Earliest.IsZero() {
		return s.At.Add(time.Second)
	}
	return later(s.At.Add(end.Sub(s.Earliest)), s.Start(second))
}

// Second returns the timeAdded to write of what was seen: the second that the API server's clock showed at the latest,
// so that the end of this second is never before the sight.
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
