// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// start is when the first taint of the tests is sent.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 250_000_000, time.UTC)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// bound before any taint.
var early = start.Add(-time.Hour)

func noExecute(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

// script makes a timeline whose phases begin at the given seconds.
func script(phases ...any) timeline {
	var t timeline
	for i := 0; i < len(phases); i += 2 {
		t = t.next(after(phases[i].(float64)), phases[i+1].([]corev1.Taint))
	}
	return t
}

func TestExpect(t *testing.T) {
	maintenanceOnly := []corev1.Taint{noExecute(maintenance)}
	both := []corev1.Taint{noExecute(heat), noExecute(maintenance)}
	one := script(0.0, maintenanceOnly)
	second := script(0.0, maintenanceOnly, 2.0, both)
	untaint := script(0.0, maintenanceOnly, 2.0, []corev1.Taint(nil))

	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		bound       time.Time
		timeline    timeline
		due         time.Time // zero: stays
		was         time.Time // zero: nothing was replaced
	}{
		{"a pod without a toleration is due with the taint", nil, early, one, after(0), time.Time{}},
		{"a pod is due when its seconds are over", []corev1.Toleration{forSeconds(maintenance, 5)}, early, one, after(5), time.Time{}},
		{"a pod that tolerates for ever stays", []corev1.Toleration{forEver(maintenance)}, early, one, time.Time{}, time.Time{}},
		{"the first toleration that matches counts", []corev1.Toleration{forSeconds(maintenance, 4), forEver(maintenance)}, early, one, after(4), time.Time{}},
		{"the seconds of a later pod count from its binding", []corev1.Toleration{forSeconds(maintenance, 3)}, after(3.5), one, after(6.5), time.Time{}},
		{"a second taint brings the eviction forward", []corev1.Toleration{forSeconds(maintenance, 5), forSeconds(heat, 2)}, early, second, after(4), after(5)},
		{"a second taint that is not tolerated is due at once", []corev1.Toleration{forSeconds(maintenance, 6)}, early, second, after(2), after(6)},
		{"a second taint makes a pod leave that stayed", []corev1.Toleration{forEver(maintenance), forSeconds(heat, 1)}, early, second, after(3), time.Time{}},
		{"a pod that left before the second taint is not concerned", []corev1.Toleration{forSeconds(maintenance, 1)}, early, second, after(1), time.Time{}},
		{"a pod that came after the second taint was never due for the first alone", []corev1.Toleration{forSeconds(maintenance, 5), forSeconds(heat, 2)}, after(3), second, after(5), time.Time{}},
		{"an untaint cancels what is pending", []corev1.Toleration{forSeconds(maintenance, 5)}, early, untaint, time.Time{}, after(5)},
		{"an untaint comes too late for a pod that was due before", nil, early, untaint, after(0), time.Time{}},
		{"an untaint changes nothing for a pod that stays", []corev1.Toleration{forEver(maintenance)}, early, untaint, time.Time{}, time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := expect(rule, verdict.Pod{Tolerations: tt.tolerations, Bound: tt.bound}, tt.timeline)
			if got.Leaves == tt.due.IsZero() || !got.Due.Equal(tt.due) {
				t.Errorf("leaves %t, due %v, want %v", got.Leaves, got.Due, tt.due)
			}
			var was time.Time
			if got.replaced != nil {
				was = got.replaced.Due
			}
			if !was.Equal(tt.was) {
				t.Errorf("was due %v, want %v", was, tt.was)
			}
			if got.why.Taint.Key == "" {
				t.Error("no taint explains the promise")
			}
		})
	}
}

func TestTimelineKeepsTheInstantOfATaintThatWasStampedMeanwhile(t *testing.T) {
	stamped := noExecute(maintenance)
	stamped.TimeAdded = &metav1.Time{Time: start.Truncate(time.Second)}
	got := script(0.0, []corev1.Taint{noExecute(maintenance)}, 2.0, []corev1.Taint{noExecute(heat), stamped})
	since := map[string]time.Time{}
	for _, taint := range got[1].taints {
		since[taint.Key] = taint.Since
	}
	if !since[maintenance].Equal(after(0)) || !since[heat].Equal(after(2)) {
		t.Errorf("since %v, want maintenance from %v and heat from %v", since, after(0), after(2))
	}
}

func TestJudge(t *testing.T) {
	due := promise{Verdict: verdict.Verdict{Reason: verdict.Reason{Leaves: true, Due: after(5)}}}
	forever := promise{}
	evictedAt := func(seconds float64) sighting { return sighting{left: after(seconds), marked: true} }

	tests := []struct {
		name    string
		promise promise
		seen    sighting
		now     time.Time
		want    outcome
	}{
		{"a pod that is due later waits", due, sighting{}, after(4), waiting},
		{"a pod that was due just now waits", due, sighting{}, after(6), waiting},
		{"a pod that was due long ago is left over", due, sighting{}, after(10.5), leftOver},
		{"a pod that left when it was due is evicted", due, evictedAt(5.02), after(6), evicted},
		{"a pod that left before it was due is too early", due, evictedAt(4.999), after(6), tooEarly},
		{"a pod that left long after it was due is too late", due, evictedAt(10.5), after(11), tooLate},
		{"a pod that somebody else deleted was not evicted", due, sighting{left: after(5.1)}, after(6), unmarked},
		{"a pod that stays has stayed", forever, sighting{}, after(6), stayed},
		{"a pod that had to stay and left is a broken promise", forever, evictedAt(5), after(6), broken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(tt.promise, tt.seen, tt.now); got != tt.want {
				t.Errorf("outcome %d, want %d", got, tt.want)
			}
		})
	}
}
