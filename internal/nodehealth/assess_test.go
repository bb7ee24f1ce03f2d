// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	noon  = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	grace = Grace{Monitor: 50 * time.Second, Startup: 60 * time.Second}
)

// nodeWith is a node with conditions of these statuses, all since an hour.
func nodeWith(statuses map[corev1.NodeConditionType]corev1.ConditionStatus) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	for kind, status := range statuses {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Told", LastHeartbeatTime: metav1.NewTime(noon), LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
		})
	}
	return node
}

func TestAssess(t *testing.T) {
	ready := map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue}
	for name, test := range map[string]struct {
		node     map[corev1.NodeConditionType]corev1.ConditionStatus
		silence  time.Duration
		ready    corev1.ConditionStatus
		unknown  []corev1.NodeConditionType
		silentIn time.Duration // from the last sign of life; zero: never
	}{
		"heard of just now":                   {ready, 0, corev1.ConditionTrue, nil, 50 * time.Second},
		"as long as allowed":                  {ready, 50 * time.Second, corev1.ConditionTrue, nil, 50 * time.Second},
		"a nanosecond longer":                 {ready, 50*time.Second + 1, corev1.ConditionUnknown, kubeletConditions, 0},
		"not ready, by its kubelet":           {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse}, 0, corev1.ConditionFalse, nil, 50 * time.Second},
		"not ready, then silent":              {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse}, time.Minute, corev1.ConditionUnknown, kubeletConditions, 0},
		"Unknown already, whatever else":      {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionUnknown, corev1.NodeDiskPressure: corev1.ConditionTrue}, time.Hour, corev1.ConditionUnknown, nil, 0},
		"never posted, within the start-up":   {nil, time.Minute, "", nil, time.Minute},
		"never posted, after the start-up":    {nil, time.Minute + 1, corev1.ConditionUnknown, kubeletConditions, 0},
		"what is Unknown already is left out": {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue, corev1.NodePIDPressure: corev1.ConditionUnknown}, time.Hour, corev1.ConditionUnknown, []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := Assess(nodeWith(test.node), noon, grace, noon.Add(test.silence))
			if got.Ready != test.ready {
				t.Errorf("Ready is %q, want %q", got.Ready, test.ready)
			}
			var unknown []corev1.NodeConditionType
			for _, c := range got.Conditions {
				unknown = append(unknown, c.Type)
				if c.Status != corev1.ConditionUnknown || !c.LastTransitionTime.Time.Equal(noon.Add(test.silence)) {
					t.Errorf("condition %+v, want it Unknown since now", c)
				}
			}
			if !slices.Equal(unknown, test.unknown) {
				t.Errorf("%q change, want %q", unknown, test.unknown)
			}
			var silentAt time.Time
			if test.silentIn > 0 {
				silentAt = noon.Add(test.silentIn)
			}
			if !got.SilentAt.Equal(silentAt) {
				t.Errorf("silent at %s, want %s", got.SilentAt, silentAt)
			}
		})
	}
}

func TestNetworkUnavailableIsTheControlPlanesAndStays(t *testing.T) {
	node := nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeNetworkUnavailable: corev1.ConditionFalse,
	})
	for _, c := range Assess(node, noon, grace, noon.Add(time.Hour)).Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			t.Errorf("changed: %+v", c)
		}
	}
}

func TestAConditionThatWasPostedKeepsItsHeartbeatAndOneThatNeverWasHasTheNodesCreation(t *testing.T) {
	node := nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue})
	for _, c := range Assess(node, noon, grace, noon.Add(time.Hour)).Conditions {
		want, reason := node.CreationTimestamp.Time, "NodeStatusNeverUpdated"
		if c.Type == corev1.NodeReady {
			want, reason = noon, "NodeStatusUnknown"
		}
		if !c.LastHeartbeatTime.Time.Equal(want) || c.Reason != reason {
			t.Errorf("%s: heartbeat %s and reason %s, want %s and %s", c.Type, c.LastHeartbeatTime, c.Reason, want, reason)
		}
	}
}
