// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestAWorkloadThatToleratesACordonIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want is
	}{
		"by name":                 {pod("p", tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: "Exists"})), warningThat("come back to a cordoned node, because of toleration {key: node.kubernetes.io/unschedulable, operator: Exists}")},
		"with everything":         {pod("p", tolerating(everything)), warningThat("{operator: Exists}")},
		"NoExecute alone":         {pod("p", tolerating(corev1.Toleration{Operator: "Exists", Effect: "NoExecute"})), nothing},
		"a DaemonSet is meant to": {pod("p", ownedBy("DaemonSet", "d"), tolerating(everything)), nothing},
		"a bare pod is gone":      {pod("p", alone, tolerating(everything)), nothing},
	} {
		t.Run(name, func(t *testing.T) { test.want.compare(t, found(t, "tolerates-cordon", pods(test.pod))) })
	}
}

func TestATaintThatIsSetForAWhileAndStaysIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		taint string
		since time.Duration // before now; 0 if it is not recorded
		want  is
	}{
		"a cordon of two days":    {"node.kubernetes.io/unschedulable:NoSchedule", 48 * time.Hour, infoThat("It has had the taint node.kubernetes.io/unschedulable for at least 2d.")},
		"a cordon of an hour":     {"node.kubernetes.io/unschedulable:NoSchedule", time.Hour, nothing},
		"a cordon of unknown age": {"node.kubernetes.io/unschedulable:NoSchedule", 0, nothing},
		"of an autoscaler":        {"ToBeDeletedByClusterAutoscaler=1764000000:NoSchedule", 2 * time.Hour, infoThat("ToBeDeletedByClusterAutoscaler for at least 120m")},
		"a taint that is to stay": {"dedicated:NoSchedule", 48 * time.Hour, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			is := node("n", test.taint)
			if test.since > 0 {
				is.Spec.Taints[0].TimeAdded = new(metav1.NewTime(now.Add(-test.since)))
			}
			test.want.compare(t, found(t, "stale-taint", clusterWith(func(cluster *state.Cluster) { cluster.Nodes = []*corev1.Node{is} })))
		})
	}
}

// cancelled returns an event that says how often the eviction of a pod was cancelled.
func cancelled(pod string, count int32) sign {
	return func(cluster *state.Cluster) {
		cluster.Signs.AddEvent(&corev1.Event{
			InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: pod},
			Reason:         v1alpha1.EventEviction, Message: "Cancelling deletion of Pod default/" + pod,
			Count: count, LastTimestamp: metav1.NewTime(now.Add(-time.Minute)),
		})
	}
}

func TestATaintThatComesAndGoesIsFound(t *testing.T) {
	there := func(cluster *state.Cluster) { cluster.Pods = append(cluster.Pods, pod("p"), pod("q")) }
	byHand := wrote("hand", ofTaints, time.Minute)
	const says = "Evictions of 1 pod were cancelled at least 3 times, as happens when a taint comes and goes"
	for name, test := range map[string]struct {
		signs []sign
		want  is
	}{
		"once":                     {[]sign{there, cancelled("p", 1)}, nothing},
		"once for each of them":    {[]sign{there, cancelled("p", 1), cancelled("q", 1)}, nothing},
		"three times":              {[]sign{there, cancelled("p", 3)}, warningThat(says + ".")},
		"in three events":          {[]sign{there, cancelled("p", 1), cancelled("p", 1), cancelled("p", 0)}, warningThat(says)},
		"the last writer is named": {[]sign{there, byHand, cancelled("p", 3)}, warningThat(says + "; field manager hand last wrote the taints of the node, at 2026-11-22T08:59:00Z.")},
		"a pod that is gone":       {[]sign{there, cancelled("gone", 3)}, nothing},
		"a successor with the name": {[]sign{func(cluster *state.Cluster) {
			cluster.Pods = append(cluster.Pods, pod("p", func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(now) }))
		}, cancelled("p", 3)}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "flapping-taint", clusterWith(test.signs...)))
		})
	}
}

func TestAGracePeriodShorterThanTwoRenewalsIsFound(t *testing.T) {
	leading := func(grace time.Duration) sign {
		leader := v1alpha1.Leader{Controllers: []string{"node-health"}, MonitorGrace: grace}
		return func(cluster *state.Cluster) {
			leads("node-health")(cluster)
			cluster.Signs.Leases[0].Labels = leader.Labels(replica)
		}
	}
	for name, test := range map[string]struct {
		sign sign
		want is
	}{
		"one renewal":         {leading(10 * time.Second), warningThat("--node-monitor-grace-period=10s is less than 21s")},
		"just too short":      {leading(20999 * time.Millisecond), warningThat("=20.999s is less than 21s")},
		"long enough":         {leading(21 * time.Second), nothing},
		"without node health": {leading(0), nothing},
		"of the built-in":     {process("kube-controller-manager", "--node-monitor-grace-period=10s"), nothing},
		"of an old version":   {oldTaintkeeper, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "short-grace-period", clusterWith(test.sign)))
		})
	}
}

func TestAStartupTaintThatStaysIsFound(t *testing.T) {
	const cilium = "node.cilium.io/agent-not-ready:NoExecute"
	for name, test := range map[string]struct {
		taint string
		ready corev1.ConditionStatus
		wrote time.Duration // how long ago; 0 if there are no managed fields
		want  is
	}{
		"for an hour":                      {cilium, corev1.ConditionTrue, time.Hour, warningThat("This taint is removed by Cilium when a node has started (https://docs.cilium.io/en/stable/installation/taints/), but it has been on 1 node for more than 15 minutes.")},
		"of a prefix":                      {"readiness.k8s.io/network:NoSchedule", corev1.ConditionTrue, time.Hour, warningThat("removed by node-readiness-controller")},
		"for 14 minutes":                   {cilium, corev1.ConditionTrue, 14 * time.Minute, nothing},
		"with a timeAdded":                 {cilium + " since 8:00", corev1.ConditionTrue, time.Minute, warningThat("Cilium")},
		"in a file without managed fields": {cilium, corev1.ConditionTrue, 0, infoThat("but it is still on 1 node, ready for more than 15 minutes.")},
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
