// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Precise returns the instant of something that the API recorded to the second, rounded down,
// and that was first seen at another instant. It happened before its second ended and before it
// was seen, so the earlier of the two is never too early: a pod is never evicted before what it
// was promised. What was never recorded, or recorded after it was seen, happened when it was seen.
func Precise(recorded, firstSeen time.Time) time.Time {
	endOfSecond := recorded.Truncate(time.Second).Add(time.Second)
	if recorded.IsZero() || firstSeen.Before(endOfSecond) {
		return firstSeen
	}
	return endOfSecond
}

// Since returns the instant from which a taint counts: its timeAdded, made [Precise] by the
// instant at which the taint was first seen. Without a timeAdded it is the first sight.
func Since(timeAdded *metav1.Time, firstSeen time.Time) time.Time {
	if timeAdded == nil {
		return firstSeen
	}
	return Precise(timeAdded.Time, firstSeen)
}

// Bound returns when a pod was bound to its node, as the API recorded it to the second: the
// transition time of its condition PodScheduled, else its creation time. [Precise] refines it.
func Bound(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
