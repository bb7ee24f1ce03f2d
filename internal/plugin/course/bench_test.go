// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// A cluster with three zones. One of them, which is as big as the reference cluster and has three fifths of the nodes,
// falls silent.
const (
	benchNodes     = 8_333
	benchZoneNodes = 5_000
	benchPods      = 250_000 // 150,000 of them in the silent zone
)

// BenchmarkZone plays a zone of 5,000 nodes and 150,000 pods that is silent for ten minutes. Run it with -benchtime 1x.
func BenchmarkZone(b *testing.B) {
	cluster := &state.Cluster{}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	for i := range benchNodes {
		zone := "b"
		if i >= benchZoneNodes {
			zone = []string{"a", "c"}[i%2]
		}
		is := node(zone, fmt.Sprintf("n%05d", i))
		is.Status.Allocatable, is.Status.Capacity = room, room
		cluster.Nodes = append(cluster.Nodes, is)
	}
	asks := []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
	}}}}
	for i := range benchPods {
		on := cluster.Nodes[i%benchNodes]
		is := pod(on.Name, "ReplicaSet", fmt.Sprintf("web-%d", i%10_000), fmt.Sprintf("p%06d", i), 300)
		is.Spec.Containers = asks
		cluster.Pods = append(cluster.Pods, is)
	}
	b.Run("where-to=false", func(b *testing.B) { benchmarkZone(b, cluster, false) })
	b.Run("where-to=true", func(b *testing.B) { benchmarkZone(b, cluster, true) })
}

func benchmarkZone(b *testing.B, cluster *state.Cluster, whereTo bool) {
	b.Helper()
	scenario, err := course.Parse([]byte("{kind: Simulation, until: 30m, steps: [" +
		"{at: 0s, silent: {selector: topology.kubernetes.io/zone=b}}, {at: 10m, back: {selector: topology.kubernetes.io/zone=b}}]}"))
	if err != nil {
		b.Fatal(err)
	}
	fast := rates
	fast.FullDisruptionRate = 50 // so that all nodes lose pods within the ten minutes
	for b.Loop() {
		report, err := course.Play(b.Context(), cluster, scenario, course.Options{
			At: noon, Grace: grace, Policy: fast, StartDelay: 5 * time.Second, WhereTo: whereTo,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(report.Summary.Left), "pods-left")
		b.ReportMetric(float64(report.Summary.Nowhere), "pods-nowhere")
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	b.ReportMetric(float64(stats.Sys)/(1<<20), "MiB")
}
