// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSightingRemembersWhenItSawWhatFirst(t *testing.T) {
	unbound := &corev1.Pod{}
	bound := &corev1.Pod{Spec: corev1.PodSpec{NodeName: west1}}
	marked := bound.DeepCopy()
	marked.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: evictionReason}}
	terminating := marked.DeepCopy()
	terminating.DeletionTimestamp = &metav1.Time{Time: after(3)}

	s := sighting{}.see(unbound, after(0)).see(bound, after(1)).see(bound, after(2))
	if !s.bound.Equal(after(1)) || !s.left.IsZero() || s.marked {
		t.Errorf("bound: %+v", s)
	}
	s = s.see(marked, after(3)).see(terminating, after(4)).gone(terminating, after(5))
	if !s.bound.Equal(after(1)) || !s.left.Equal(after(4)) || !s.marked {
		t.Errorf("evicted: %+v", s)
	}
	if s := (sighting{}).see(bound, after(1)).gone(bound, after(2)); !s.left.Equal(after(2)) || s.marked {
		t.Errorf("gone at once: %+v", s)
	}
}

func TestSightingCountsABindingFromWhereTheAPIServerKnowsOfIt(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: west1}}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: start.Truncate(time.Second)},
	}}
	s := sighting{}.see(pod, after(0.03)).corrected(start, after(1))
	if !s.rule().Bound.Equal(start) || !s.left.IsZero() {
		t.Errorf("bound at %v, want %v; left at %v, and it was not seen to leave", s.rule().Bound, start, s.left)
	}
	if s = s.gone(pod, after(1.05)).corrected(start, after(1)); !s.left.Equal(after(1)) {
		t.Errorf("left at %v, want %v", s.left, after(1))
	}
	if s = s.corrected(time.Time{}, time.Time{}); !s.left.Equal(after(1)) || !s.bound.Equal(start) {
		t.Errorf("without better instants, bound at %v and left at %v", s.bound, s.left)
	}
}

func TestMissing(t *testing.T) {
	pending := sightingOf("web", west1)
	pending.pod.Status.Phase = corev1.PodPending
	seen := []sighting{
		sightingOf("web", west1), pending, sightingOf("web", west2).evictedAfter(1),
		sightingOf("db", west1), sightingOf("db", west2),
		sightingOf("plain", west1),
	}
	got := missing(seen, map[string]int{"web": 2, "db": 1, "plain": 1, "agent": 1})
	if diff := cmp.Diff([]string{"agent: 0 of 1", "db: 2 of 1", "web: 1 of 2"}, got); diff != "" {
		t.Error(diff)
	}
}
