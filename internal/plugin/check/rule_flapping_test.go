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
	const says = "Evictions of 1 pod were cancelled 3 times, as happens when a taint comes and goes"
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
