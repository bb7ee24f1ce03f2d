// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestASilentNodeIsTaintedInOneWriteAndItsReturnTakesBothTaintsInOne(t *testing.T) {
	s := newScene(t)
	a, b := s.zone(t, "a", 3), s.zone(t, "b", 1)
	s.keep(t)
	mute := s.mute(t, "mute", "b")
	pod := s.pod(t, "on-silent", a[0])

	last := a[0].falls(t)
	s.becomes(t, a[0], unreachable)
	s.wantStory(t, a[0], silent, unreachable)
	checkSilent(t, s.calledSilent(t, a[0], last.Add(grace)))
	checkTimeAdded(t, s.writes(t, a[0])[1])
	if event := says(t, a[0].node.UID, "NodeNotReady", "Node a-0 status is now: NodeNotReady"); event.Source.Component != "node-controller" || event.Type != corev1.EventTypeNormal {
		t.Errorf("the event is of type %s and from %q", event.Type, event.Source.Component)
	}
	says(t, pod.UID, "NodeNotReady", "Node is not ready")
	if ready := podCondition(look(t.Context(), t, pod), corev1.PodReady); ready.Status != corev1.ConditionFalse || ready.Reason != "Posted" {
		t.Errorf("the pod's condition Ready is %v, want False and the reason kept", ready)
	}

	// A restart in the middle: of what is silent already nothing changes, and what falls silent has one grace
	// period from the start.
	a[1].falls(t)
	restarted := s.restart(t)
	s.becomes(t, a[1], unreachable)
	s.wantStory(t, a[1], silent, unreachable)
	s.calledSilent(t, a[1], restarted.Add(grace))
	s.wantStory(t, a[0], silent, unreachable)
	if event := says(t, a[0].node.UID, "NodeNotReady", "NodeNotReady"); event.Count > 1 {
		t.Errorf("NodeNotReady was said %d times", event.Count)
	}

	for _, k := range a[:2] {
		from := k.returns(t)
		s.becomes(t, k, untainted)
		s.wantStory(t, k, silent, unreachable, untainted)
		checkInstant(t, "node "+k.node.Name+" was untainted", s.writes(t, k)[2].call, from)
	}
	s.wantStory(t, a[2])
	s.wantStory(t, b[0])
	checkNeverUpdated(t, s.calledSilent(t, mute, mute.node.CreationTimestamp.Add(startupGrace)))
}

// checkSilent checks the conditions that are set in the place of a kubelet's.
func checkSilent(t *testing.T, w write) {
	t.Helper()
	seen := 0
	for _, c := range w.node.Status.Conditions {
		if _, known := healthy[c.Type]; !known {
			continue
		}
		seen++
		if c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
			t.Errorf("the condition of a silent node: %v", c)
		}
	}
	if seen != len(healthy) {
		t.Errorf("%d conditions, want %d: %v", seen, len(healthy), w.node.Status.Conditions)
	}
}

func checkNeverUpdated(t *testing.T, w write) {
	t.Helper()
	if len(w.node.Status.Conditions) != len(healthy) {
		t.Errorf("%d conditions, want %d", len(w.node.Status.Conditions), len(healthy))
	}
	for _, c := range w.node.Status.Conditions {
		if c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusNeverUpdated" || c.Message != "Kubelet never posted node status." {
			t.Errorf("the condition of a node without a kubelet: %v", c)
		}
	}
}

// checkTimeAdded checks that each taint says when it came, at the latest: a Date tells the second.
func checkTimeAdded(t *testing.T, w write) {
	t.Helper()
	for _, taint := range w.node.Spec.Taints {
		if taint.TimeAdded == nil || taint.TimeAdded.After(w.Answered.Add(time.Second)) || w.Answered.Sub(taint.TimeAdded.Time) > patience {
			t.Errorf("taint %s was added at %v, written until %v", taint.ToString(), taint.TimeAdded, w.Answered)
		}
	}
}
