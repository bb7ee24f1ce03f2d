// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
)

func TestPodsOfOneOwnerShareTheirEqualParts(t *testing.T) {
	pod, ownedBy, tolerating := statetest.Pod, statetest.OwnedBy, statetest.Tolerating
	cluster := &state.Cluster{}
	for _, pod := range []*corev1.Pod{
		pod("a", ownedBy("ReplicaSet", "r"), tolerating("k", 300)), pod("b", ownedBy("ReplicaSet", "r"), tolerating("k", 300)),
		pod("c", ownedBy("ReplicaSet", "r"), tolerating("k", 60)), pod("d", tolerating("k", 300)),
	} {
		state.Pods.Add(cluster, pod)
	}
	a, b, c, d := cluster.Pods[0], cluster.Pods[1], cluster.Pods[2], cluster.Pods[3]
	if &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] {
		t.Error("two pods of one owner with equal tolerations do not share them")
	}
	if *c.Spec.Tolerations[0].TolerationSeconds != 60 {
		t.Error("a pod with tolerations of its own has lost them")
	}
	if len(d.Spec.Tolerations) != 1 {
		t.Error("a pod without an owner has lost its tolerations")
	}
}
