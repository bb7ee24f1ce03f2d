// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

func TestAStartupTaintThatStaysIsFound(t *testing.T) {
	const cilium = "node.cilium.io/agent-not-ready:NoExecute"
	for name, test := range map[string]struct {
		taint string
		ready corev1.ConditionStatus
		age   time.Duration // of the node
		wrote time.Duration // how long ago; 0 if managed fields do not show it
		want  is
	}{
		"for an hour":                   {cilium, corev1.ConditionTrue, time.Hour, 0, warningThat("This taint is removed by Cilium when a node has started (https://docs.cilium.io/en/stable/installation/taints/), but it has been on 1 ready node for more than 15 minutes.")},
		"of a prefix":                   {"readiness.k8s.io/network:NoSchedule", corev1.ConditionTrue, time.Hour, 0, warningThat("removed by node-readiness-controller")},
		"a young node":                  {cilium, corev1.ConditionTrue, 14 * time.Minute, 0, nothing},
		"an old node that got it again": {cilium, corev1.ConditionTrue, time.Hour, time.Minute, nothing},
		"written an hour ago":           {cilium, corev1.ConditionTrue, 2 * time.Hour, time.Hour, warningThat("Cilium")},
		"a node that is not ready":      {cilium, corev1.ConditionFalse, time.Hour, 0, nothing},
		"another taint":                 {"dedicated:NoSchedule", corev1.ConditionTrue, time.Hour, 0, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			is := node("n", test.taint)
			is.CreationTimestamp = metav1.NewTime(now.Add(-test.age))
			is.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.ready}}
			if test.wrote > 0 {
				is.ManagedFields = []metav1.ManagedFieldsEntry{{
					Manager: "kubectl-taint", Time: new(metav1.NewTime(now.Add(-test.wrote))), FieldsV1: metav1.NewFieldsV1(ofTaints),
				}}
			}
			test.want.compare(t, found(t, "startup-taint", clusterWith(func(cluster *plan.Cluster) { cluster.Nodes = []*corev1.Node{is} })))
		})
	}
}
