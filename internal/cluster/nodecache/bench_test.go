// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// A cluster three times the size that Kubernetes is built for, and how much memory a node may take.
const (
	benchNodes   = 15_000
	bytesPerNode = 3_300
)

// BenchmarkRecord15k makes the records of a large cluster. Run it with -benchtime 1x. Every node is decoded on its own,
// as the client does it, so that nothing is shared that would not be shared with a real API server.
func BenchmarkRecord15k(b *testing.B) {
	for b.Loop() {
		before := heapInUse()
		c := newCache()
		for i := range benchNodes {
			await.Must(b, c.Store().Add(decodedNode(b, i)))
		}
		used := float64(heapInUse()-before) / benchNodes
		b.ReportMetric(used, "bytes/node")
		if used > bytesPerNode {
			b.Errorf("%.0f bytes for each node, the budget is %d", used, bytesPerNode)
		}
		runtime.KeepAlive(c)
	}
}

// heapInUse collects garbage twice, so that what only finalizers and caches held is gone too.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// decodedNode returns node number i as the client decodes it.
func decodedNode(b *testing.B, i int) *corev1.Node {
	b.Helper()
	wire, err := productionNode(i).Marshal()
	await.Must(b, err)
	node := &corev1.Node{}
	await.Must(b, node.Unmarshal(wire))
	return node
}

// productionNode returns a node with everything that the nodes of a cloud provider have.
func productionNode(i int) *corev1.Node {
	name := fmt.Sprintf("ip-10-%d-%d-17.eu-central-1.compute.internal", i/250, i%250)
	node := newNode(name, withVersion(fmt.Sprint(1_000_000+i)), withUID(types.UID(fmt.Sprintf("%08x-71c1-4e8f-9d3a-%012x", i*2654435761%(1<<32), i))))
	node.Labels = map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/instance-type": "m7i.4xlarge",
		"node.kubernetes.io/instance-type": "m7i.4xlarge", "topology.kubernetes.io/region": "eu-central-1",
		"topology.kubernetes.io/zone": fmt.Sprint("eu-central-1", string(rune('a'+i%3))), "topology.k8s.aws/zone-id": fmt.Sprint("euc1-az", i%3),
		"failure-domain.beta.kubernetes.io/region": "eu-central-1", "failure-domain.beta.kubernetes.io/zone": fmt.Sprint("eu-central-1", string(rune('a'+i%3))),
		"karpenter.sh/nodepool": fmt.Sprint("pool-", i%12), "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/registered": "true",
		"karpenter.k8s.aws/instance-family": "m7i", "karpenter.k8s.aws/instance-size": "4xlarge", "karpenter.k8s.aws/instance-cpu": "16",
		"karpenter.k8s.aws/instance-memory": "65536", "node.example.com/team": fmt.Sprint("team-", i%40), "node.example.com/image": "ami-0f1e2d3c4b5a69788",
	}
	node.Annotations = map[string]string{"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": `{"ebs.csi.aws.com":"i-0f1e2d3c4b5a69788"}`}
	node.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(strings.Repeat(`"f:something":{".":{},"f:other":{}},`, 60)),
	}}
	if i%5 == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: "node.example.com/dedicated", Value: fmt.Sprint("team-", i%40), Effect: corev1.TaintEffectNoSchedule}}
	}
	node.Status.Conditions = nil
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady, "KernelDeadlock", "ReadonlyFilesystem"} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
			LastHeartbeatTime: metav1.NewTime(created.Add(time.Duration(i) * time.Second)), LastTransitionTime: created,
		})
	}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("15890m"), corev1.ResourceMemory: resource.MustParse("60Gi")}
	for image := range 50 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("registry.example.com/shop/service-%d:1.48.2", image), fmt.Sprintf("registry.example.com/shop/service-%d@sha256:%064x", image, image)},
			SizeBytes: 123_456_789,
		})
	}
	return node
}
