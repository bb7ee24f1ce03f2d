// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// BenchmarkPlanOf150k makes a plan for all nodes of a big cluster from a file, in a separate process. MiB is the peak
// memory of that process.
func BenchmarkPlanOf150k(b *testing.B) {
	file := filepath.Join(b.TempDir(), "cluster.json")
	writeBigCluster(b, file)
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), self, "plan", "-f", file, "--all", "maintenance=now:NoExecute", "-o", "json")
		cmd.Args[0] = "kubectl-taintkeeper"
		cmd.Env = append(os.Environ(), "NOW=2026-11-22T09:00:00Z")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			b.Fatal("this system does not report what a process used")
		}
		b.ReportMetric(float64(usage.Maxrss)/1024, "MiB")
		b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), "cpu-s")
	}
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
			corev1.LabelHostname: name, corev1.LabelTopologyZone: string(rune('a' + i%3)), corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: "large",
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
