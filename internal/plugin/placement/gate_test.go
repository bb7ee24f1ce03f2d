// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

func TestAPodGoesToANodeWhoseTaintItToleratesWithGt(t *testing.T) {
	above := func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "sla", Operator: corev1.TolerationOpGt, Value: "4"}}
	}
	made := placed(t, &plan.Cluster{
		Nodes: []*corev1.Node{node("n", "a"), node("m", "a", tainted("sla=5:NoSchedule"))},
		Pods:  []*corev1.Pod{pod("p", "n", above)},
	}, placement.Options{})
	if to := made.Pods[0].WhereTo; to.Node != "m" {
		t.Errorf("it goes to %+v, want m", to)
	}
}
