// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLatenessCountsFromDue(t *testing.T) {
	start := time.Date(2026, time.November, 21, 1, 0, 0, 0, time.UTC)
	calls := func(deleted time.Duration) []call {
		return []call{
			{User: adminUser, Verb: "patch", Resource: "nodes", Name: nodeName(0), Code: 200, Answered: start},
			{User: "someone", Verb: "delete", Resource: "pods", Name: "lateness-00000", Code: 200, Answered: start.Add(deleted)},
		}
	}
	pod := latenessPodList()[0]
	pod.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
	if got := *pod.Spec.Tolerations[0].TolerationSeconds; got != 1 {
		t.Fatalf("the first pod tolerates %d s, this test wants 1", got)
	}
	for name, test := range map[string]struct {
		deleted time.Duration
		late    time.Duration
		early   int
	}{
		"deleted a little after it was due": {1005 * time.Millisecond, 5 * time.Millisecond, 0},
		"deleted before it was due":         {900 * time.Millisecond, -100 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := newLatenessResult([]*corev1.Pod{pod}, calls(test.deleted))
			if got.Max != test.late || got.Early != test.early {
				t.Errorf("late by %s, %d early; want %s, %d", got.Max, got.Early, test.late, test.early)
			}
		})
	}
}

func TestLatenessPodsFillTheMinuteOnEveryNode(t *testing.T) {
	seen := map[string]map[int64]bool{}
	for _, pod := range latenessPodList() {
		if seen[pod.Spec.NodeName] == nil {
			seen[pod.Spec.NodeName] = map[int64]bool{}
		}
		seen[pod.Spec.NodeName][*pod.Spec.Tolerations[0].TolerationSeconds] = true
	}
	if len(seen) != stormNodes {
		t.Errorf("%d nodes, want %d", len(seen), stormNodes)
	}
	for node, instants := range seen {
		if len(instants) != latenessSeconds {
			t.Errorf("%s: %d different tolerationSeconds, want %d", node, len(instants), latenessSeconds)
		}
	}
}
