// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestAStartupTaintThatStaysIsFound(t *testing.T) {
	const cilium = "node.cilium.io/agent-not-ready:NoExecute"
	for name, test := range map[string]struct {
		taint string
		ready corev1.ConditionStatus
		wrote time.Duration // how long ago; 0 if there are no managed fields
		want  is
	}{
		"for an hour":                      {cilium, corev1.ConditionTrue, time.Hour, warningThat("This taint is removed by Cilium when a node has started (https://docs.cilium.io/en/stable/installation/taints/), but it has been on 1 ready node for more than 15 minutes.")},
		"of a prefix":                      {"readiness.k8s.io/network:NoSchedule", corev1.ConditionTrue, time.Hour, warningThat("removed by node-readiness-controller")},
		"for 14 minutes":                   {cilium, corev1.ConditionTrue, 14 * time.Minute, nothing},
		"with a timeAdded":                 {cilium + " since 8:00", corev1.ConditionTrue, time.Minute, warningThat("Cilium")},
		"in a file without managed fields": {cilium, corev1.ConditionTrue, 0, infoThat("but it is still on 1 ready node, ready for more than 15 minutes.")},
		"a node that is not ready":         {cilium, corev1.ConditionFalse, time.Hour, nothing},
		"another taint":                    {"dedicated:NoSchedule", corev1.ConditionTrue, time.Hour, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			is := node("n", test.taint)
			is.CreationTimestamp = metav1.NewTime(now.Add(-24 * time.Hour))
			is.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.ready, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
			if test.wrote > 0 {
				is.ManagedFields = []metav1.ManagedFieldsEntry{{
					Manager: "kubectl-taint", Time: new(metav1.NewTime(now.Add(-test.wrote))), FieldsV1: metav1.NewFieldsV1(ofTaints),
				}}
			}
			test.want.compare(t, found(t, "startup-taint", clusterWith(func(cluster *state.Cluster) { cluster.Nodes = []*corev1.Node{is} })))
		})
	}
}
