// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// big is a cluster of 5,000 nodes in three zones with 30 pods each. One node in thirty has a name that begins with "n",
// and gets the taint: 5,010 pods leave 167 nodes.
func big(workloads int, change func(*corev1.Pod)) *state.Cluster {
	cluster := &state.Cluster{}
	for i := range 5_000 {
		name := fmt.Sprintf("a%04d", i)
		if i%30 == 0 {
			name = fmt.Sprintf("n%04d", i)
		}
		cluster.Nodes = append(cluster.Nodes, node(name, fmt.Sprint(i%3)))
		for j := range 30 {
			app := fmt.Sprintf("app-%d", (i*30+j)%workloads)
			cluster.Pods = append(cluster.Pods, pod(fmt.Sprintf("p-%d-%d", i, j), name, asking("100m"), owned("ReplicaSet", app), change))
		}
	}
	return cluster
}

// BenchmarkPlace places the successors of 5,010 pods on 5,000 nodes, with 150,000 pods in total.
func BenchmarkPlace(b *testing.B) {
	spread := func(pod *corev1.Pod) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}
	}
	for name, cluster := range map[string]*state.Cluster{
		"50 workloads":                  big(50, func(*corev1.Pod) {}),
		"5,000 workloads":               big(5_000, func(*corev1.Pod) {}),
		"500 workloads that are spread": big(500, spread),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				made := placed(b, cluster)
				b.ReportMetric(float64(made.Summary.Placed), "placed")
				b.ReportMetric(float64(made.Summary.Bounds), "bounds")
			}
		})
	}
}
