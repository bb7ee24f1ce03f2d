// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	manyNodes = 5000
	manyPods  = 150_000
)

// outage is a zone of 1,667 nodes that is silent for ten minutes.
const outage = "{kind: Simulation, until: 30m, steps: [" +
	"{at: 0s, silent: {selector: topology.kubernetes.io/zone=a}}, {at: 10m, back: {selector: topology.kubernetes.io/zone=a}}]}"

// BenchmarkOf150k asks about a big cluster in a file, in a separate process. MiB is the peak memory of that process. If
// $BEFORE is an older build of the plugin, or of this test (go test -c), each round runs that one too, just before.
func BenchmarkOf150k(b *testing.B) {
	dir := b.TempDir()
	file, scenario := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "scenario.yaml")
	writeBigCluster(b, file)
	if err := os.WriteFile(scenario, []byte(outage), 0o600); err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, asked := range []struct {
		name string
		args []string
	}{
		{"plan", []string{"plan", "--all", "maintenance=now:NoExecute"}},
		{"where-to", []string{"plan", "--where-to", "-l", "rack=7", "maintenance=now:NoExecute"}}, // 5,010 pods
		{"simulate", []string{"simulate", scenario, "--zone-full-disruption-eviction-rate=50"}},   // all nodes are tainted
	} {
		args := slices.Concat(asked.args, []string{"-f", file, "-o", "json"})
		b.Run(asked.name, func(b *testing.B) {
			for b.Loop() {
				if before := os.Getenv("BEFORE"); before != "" {
					measure(b, "before-", before, args)
				}
				measure(b, "", self, args)
			}
			b.ReportMetric(0, "ns/op") // it would count both builds
		})
	}
}

// measure runs the plugin once, and reports what it needed.
func measure(b *testing.B, prefix, program string, args []string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), program, args...)
	cmd.Args[0] = "kubectl-taintkeeper"
	cmd.Env = append(os.Environ(), "NOW=2026-11-22T09:00:00Z")
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		b.Fatal("this system does not report what a process used")
	}
	b.ReportMetric(took.Seconds(), prefix+"wall-s")
	b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), prefix+"cpu-s")
	b.ReportMetric(float64(usage.Maxrss)/1024, prefix+"MiB")
}

// writeBigCluster writes a snapshot of such a cluster, as kubectl taintkeeper snapshot would.
func writeBigCluster(b *testing.B, name string) {
	b.Helper()
	file, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	for i := range manyNodes {
		if err := encoder.Encode(bigNode(i)); err != nil {
			b.Fatal(err)
		}
	}
	for i := range manyPods {
		if err := encoder.Encode(bigPod(i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := file.Close(); err != nil {
		b.Fatal(err)
	}
}

func bigNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%04d", i)
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: string(rune('a' + i%3)), corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: "large", "rack": strconv.Itoa(i % 30),
		}},
		Status: corev1.NodeStatus{Allocatable: size, Capacity: size},
	}
}

func bigPod(i int) *corev1.Pod {
	bound := metav1.NewTime(time.Date(2026, time.November, 22, 8, 0, 0, 0, time.UTC))
	app := fmt.Sprintf("app-%04d", i/30)
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi")}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprintf("%s-7c5b9d8f6-%05d", app, i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
			CreationTimestamp: bound,
			Labels:            map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/version": "1.2.3", "pod-template-hash": "7c5b9d8f6"},
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7c5b9d8f6", UID: types.UID(app), Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%04d", i%manyNodes), SchedulerName: "default-scheduler", Priority: new(int32(0)), TerminationGracePeriodSeconds: new(int64(30)),
			Containers: []corev1.Container{
				{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests}},
				{Name: "proxy", Resources: corev1.ResourceRequirements{Requests: requests}},
			},
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: bound},
			},
		},
	}
	if i%3 == 0 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "maintenance", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(i % 3600))})
	}
	return pod
}
