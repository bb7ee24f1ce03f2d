// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// above lets a pod tolerate the taint sla if its value is above 4.
func above(pod *corev1.Pod) {
	pod.Spec.Tolerations = append(pod.Spec.Tolerations,
		corev1.Toleration{Key: "sla", Operator: corev1.TolerationOpGt, Value: "4"})
}

func TestAPodGoesToANodeWhoseTaintItToleratesWithGt(t *testing.T) {
	made := placed(t, &state.Cluster{
		Nodes: []*corev1.Node{node("n", "a"), node("m", "a", tainted("sla=5:NoSchedule"))},
		Pods:  []*corev1.Pod{pod("p", "n", above)},
	})
	if to := made.Pods[0].WhereTo; to.Node != "m" {
		t.Errorf("it goes to %+v, want m", to)
	}
}

// p tolerates the taint of node n0 with Gt. The room that q leaves there is for p, which waits for it.
func TestAPodThatWaitsIsAskedAboutAgainWhenItToleratesATaintWithGt(t *testing.T) {
	p := func(pod *corev1.Pod) {
		tolerating("k", 10)(pod)
		above(pod)
		selecting(corev1.LabelTopologyZone, "b")(pod)
	}
	made := placed(t, &state.Cluster{
		Nodes: []*corev1.Node{node("n", "a"), node("n0", "b", tainted("sla=5:NoSchedule"))},
		Pods:  []*corev1.Pod{pod("p", "n", p), pod("q", "n0", asking("4"), tolerating("k", 60))},
	})
	if got, want := story(made), "p: n0 of n0; q: n of n"; got != want {
		t.Errorf("they go %s, want %s", got, want)
	}
}
