// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// The reference cluster, and how much memory a pod may take.
const (
	benchPods        = 150_000
	benchNodes       = 5_000
	benchLists       = 40
	bytesPerPod      = 300
	podsDecodedAhead = 1_000
)

// benchLabels are the keys of labels by which policies of the benchmark select: the app, its team, and its tier.
var benchLabels = []string{"app.kubernetes.io/name", "example.com/team", "example.com/tier"}

// BenchmarkRecord150k makes the records of the reference cluster, without policies and with three that select pods by a
// label each. Run it with -benchtime 1x. Every pod is decoded on its own, as the client does it, so that nothing is
// shared that would not be shared with a real API server.
func BenchmarkRecord150k(b *testing.B) {
	b.Run("policies=0", func(b *testing.B) {
		if used := benchmarkRecord(b); used > bytesPerPod {
			b.Errorf("%.0f bytes for each pod, the budget is %d", used, bytesPerPod)
		}
	})
	b.Run("policies=3", func(b *testing.B) { benchmarkRecord(b, benchLabels...) })
}

func benchmarkRecord(b *testing.B, labels ...string) (used float64) {
	b.Helper()
	encoder := newPodEncoder()
	for b.Loop() {
		b.StopTimer()
		before := heapInUse()
		c := newCache()
		c.KeepLabels(labels)
		for first := 0; first < benchPods; first += podsDecodedAhead {
			pods := encoder.decode(b, first)
			b.StartTimer()
			for _, pod := range pods {
				await.Must(b, c.Store().Add(pod))
			}
			b.StopTimer()
		}
		used = float64(heapInUse()-before) / benchPods
		if c.Len() != benchPods || len(c.pods.commons) < benchLists {
			b.Fatalf("%d records with %d toleration lists, want %d with %d", c.Len(), len(c.pods.commons), benchPods, benchLists)
		}
		b.ReportMetric(used, "bytes/pod")
		runtime.KeepAlive(c)
		b.StartTimer()
	}
	b.ReportMetric(float64(encoder.size()), "wirebytes/pod")
	return used
}

// heapInUse collects garbage twice, so that what only finalizers and caches held is gone too.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// podEncoder makes the wire form of production-size pods from one template.
type podEncoder struct {
	template *corev1.Pod
	lists    [][]corev1.Toleration
}

func newPodEncoder() *podEncoder {
	e := &podEncoder{template: productionPod()}
	for i := range benchLists {
		e.lists = append(e.lists, []corev1.Toleration{
			tolerated(corev1.TaintNodeNotReady, 300),
			tolerated(corev1.TaintNodeUnreachable, 300),
			{Key: "example.com/dedicated", Operator: corev1.TolerationOpEqual, Value: fmt.Sprint("team-", i), Effect: corev1.TaintEffectNoSchedule},
		})
	}
	return e
}

// wire returns pod number i as the API server would send it.
func (e *podEncoder) wire(i int) ([]byte, error) { return e.pod(i).Marshal() }

// pod returns pod number i, which shares with others what a test must not change.
func (e *podEncoder) pod(i int) *corev1.Pod {
	pod := *e.template
	pod.Namespace = fmt.Sprint("team-", i%benchLists)
	pod.Name = fmt.Sprintf("checkout-api-%08x-%05x", i%97, i)
	pod.UID = types.UID(fmt.Sprintf("%08x-71c1-4e8f-9d3a-%012x", i*2654435761%(1<<32), i))
	pod.Spec.NodeName = fmt.Sprintf("ip-10-%d-%d-17.eu-central-1.compute.internal", i%benchNodes/250, i%benchNodes%250)
	pod.Spec.Tolerations = e.lists[i%benchLists]
	pod.Labels = maps.Clone(pod.Labels)
	for key, value := range map[string]int{benchLabels[0]: i % 2000, benchLabels[1]: i % benchLists, benchLabels[2]: i % 3} {
		pod.Labels[key] = fmt.Sprint("value-", value)
	}
	return &pod
}

// decode returns podsDecodedAhead pods, beginning with number first.
func (e *podEncoder) decode(b *testing.B, first int) []*corev1.Pod {
	b.Helper()
	pods := make([]*corev1.Pod, 0, podsDecodedAhead)
	for i := range podsDecodedAhead {
		wire, err := e.wire(first + i)
		await.Must(b, err)
		pod := &corev1.Pod{}
		await.Must(b, pod.Unmarshal(wire))
		pods = append(pods, pod)
	}
	return pods
}

func (e *podEncoder) size() int { return e.template.Size() }

// productionPod returns a pod with everything that a running pod of a real cluster has.
func productionPod() *corev1.Pod {
	pod := newPod("template", scheduledAt(created.Time), inPhase(corev1.PodRunning))
	pod.Labels = map[string]string{
		"app.kubernetes.io/name": "checkout-api", "app.kubernetes.io/instance": "checkout-api-production",
		"app.kubernetes.io/version": "1.48.2", "app.kubernetes.io/managed-by": "Helm", "pod-template-hash": "6d4b75cb6d",
		"topology.kubernetes.io/zone": "eu-central-1a",
	}
	pod.Annotations = map[string]string{
		"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
		"checksum/config":                    "f3b9c5f8e0a94f5c1d1c8a4f2f1ab5e7c0d9e8b7a6f5e4d3c2b1a09f8e7d6c5b",
		"kubectl.kubernetes.io/restartedAt":  "2026-02-27T09:14:03Z",
		"sidecar.example.com/status":         `{"initContainers":["init"],"containers":["proxy"],"volumes":["data","certs"]}`,
		"cni.example.com/network-status":     `[{"name":"default","interface":"eth0","ips":["10.42.7.19"],"default":true}]`,
		"autoscaler.example.com/recommended": "cpu=250m,memory=512Mi",
	}
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(strings.Repeat(`"f:something":{".":{},"f:other":{}},`, 30)),
		})
	}
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "checkout-api-6d4b75cb6d",
		UID: "0c9f4ce1-71c1-4e8f-9d3a-000000000001", Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	pod.Spec.Priority = ptr.To[int32](1000)
	pod.Spec.Containers = []corev1.Container{productionContainer("api"), productionContainer("proxy")}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image + "@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f0",
			ContainerID: "containerd://0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0", Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: created}},
		})
	}
	return pod
}

func productionContainer(name string) corev1.Container {
	container := corev1.Container{
		Name: name, Image: "registry.example.com/shop/" + name + ":1.48.2",
		Args:  []string{"serve", "--listen=:8080", "--log-format=json"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/" + name}, {Name: "certs", MountPath: "/etc/tls"}},
	}
	for i := range 12 {
		container.Env = append(container.Env, corev1.EnvVar{
			Name: fmt.Sprintf("SERVICE_SETTING_%d", i), Value: fmt.Sprintf("https://service-%d.shop.svc.cluster.local:8443/v1", i),
		})
	}
	return container
}
