// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
)

func TestWhatAPodHoldsIsKeptWhileItIsResized(t *testing.T) {
	cpu := func(value string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(value)}
	}
	granted := func(amount string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: cpu(amount)}
	}
	for name, test := range map[string]struct {
		holds     *corev1.ResourceRequirements
		allocated corev1.ResourceList
		kept      int
	}{
		"it holds what it asks for":     {granted("1000m"), cpu("1000m"), 0},
		"it holds more":                 {granted("2"), cpu("2"), 1},
		"the kubelet says nothing":      {nil, nil, 0},
		"only more is allocated":        {nil, cpu("2"), 1},
		"only what it holds is more":    {granted("2"), nil, 1},
		"it holds more than is granted": {granted("2"), cpu("1"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			slim := state.SlimPod(&corev1.Pod{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: cpu("1")}}}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
					Name: "c", ContainerID: "x", AllocatedResources: test.allocated, Resources: test.holds,
				}}},
			})
			if got := len(slim.Status.ContainerStatuses); got != test.kept {
				t.Fatalf("%d statuses are kept, want %d", got, test.kept)
			}
			for _, status := range slim.Status.ContainerStatuses {
				if status.ContainerID != "" {
					t.Error("more than the resources is kept")
				}
			}
		})
	}
}

func TestOnlyVolumesThatLimitWhereAPodCanRunAreKept(t *testing.T) {
	template := &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast")}}
	for name, test := range map[string]struct{ is, kept corev1.VolumeSource }{
		"a claim":              {is: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		"an ephemeral claim":   {is: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template}}},
		"one without template": {is: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		"a disk of GCE":        {is: corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}}},
		"a disk of AWS":        {is: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "d"}}},
		"an iSCSI target": {
			is:   corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "q", TargetPortal: "p"}},
			kept: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "q"}},
		},
		"an image of Ceph": {
			is:   corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"m"}, RBDImage: "i", RadosUser: "u"}},
			kept: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"m"}, RBDImage: "i"}},
		},
	} {
		if test.kept == (corev1.VolumeSource{}) {
			test.kept = test.is
		}
		slim := state.SlimPod(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "logs", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Gi"))}}},
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var"}}}, {Name: "v", VolumeSource: test.is},
		}}})
		logs := corev1.Volume{Name: "logs", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
		if diff := cmp.Diff([]corev1.Volume{logs, {Name: "v", VolumeSource: test.kept}}, slim.Spec.Volumes); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

func volumeOf(volume *corev1.PersistentVolume) *corev1.PersistentVolume {
	return state.Volumes.Keep(volume).(*corev1.PersistentVolume)
}

func TestOnlyTheLocationOfAPersistentVolumeIsKept(t *testing.T) {
	for name, source := range map[string]corev1.PersistentVolumeSource{
		"of a driver": {CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		"of AWS":      {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "d"}},
		"of GCE":      {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}},
		"of Azure":    {AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d"}},
		"of a path":   {},
	} {
		volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
		if diff := cmp.Diff(source, volumeOf(volume).Spec.PersistentVolumeSource); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
		if volume.Spec.ClaimRef = (&corev1.ObjectReference{Name: "c"}); volumeOf(volume).Spec.ClaimRef.Name != "c" {
			t.Errorf("%s: its claim is not kept", name)
		}
	}
}

func TestOnlyHostPortsAreKept(t *testing.T) {
	ports := []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 8081}}
	slim := state.SlimPod(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}}})
	if diff := cmp.Diff(ports[1:], slim.Spec.Containers[0].Ports); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImagesAreFoundByAHashOfTheirNames(t *testing.T) {
	for name, test := range map[string]struct{ pod, node string }{
		"with a tag":              {"registry.example/web:1.0", "registry.example/web:1.0"},
		"without a tag":           {"registry.example:5000/web", "registry.example:5000/web:latest"},
		"by its digest":           {"registry.example/web@sha256:0a1b", "registry.example/web@sha256:0a1b"},
		"that are hashes already": {"image:0123456789abcdef", "image:0123456789abcdef"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := state.SlimPod(state.SlimPod(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: test.pod}}}}))
			images := state.SlimImages([]corev1.ContainerImage{{Names: []string{"registry.example/other:1", test.node}, SizeBytes: 7}})
			cluster := &state.Cluster{
				Nodes: []*corev1.Node{{Status: corev1.NodeStatus{Images: images}}}, Pods: []*corev1.Pod{pod},
			}
			cluster.KeepUsedImages()
			image := pod.Spec.Containers[0].Image
			if kept := cluster.Nodes[0].Status.Images; len(kept) != 1 || !slices.Equal(kept[0].Names, []string{image}) || kept[0].SizeBytes != 7 {
				t.Errorf("the node has %v, and the pod runs %s", kept, image)
			}
			if strings.Contains(image, "registry") {
				t.Errorf("the name %s is kept", image)
			}
		})
	}
}

func TestImagesThatNoPodUsesAreDropped(t *testing.T) {
	images := state.SlimImages([]corev1.ContainerImage{{Names: []string{"registry.example/web:1.0"}, SizeBytes: 7}})
	cluster := &state.Cluster{Nodes: []*corev1.Node{{Status: corev1.NodeStatus{Images: images}}}}
	if cluster.KeepUsedImages(); len(cluster.Nodes[0].Status.Images) > 0 {
		t.Errorf("the node has %v", cluster.Nodes[0].Status.Images)
	}
}

func TestPodsOfOneOwnerShareTheirEqualParts(t *testing.T) {
	pod, ownedBy, tolerating := statetest.Pod, statetest.OwnedBy, statetest.Tolerating
	cluster := &state.Cluster{}
	for _, pod := range []*corev1.Pod{
		pod("a", ownedBy("ReplicaSet", "r"), tolerating("k", 300)), pod("b", ownedBy("ReplicaSet", "r"), tolerating("k", 300)),
		pod("c", ownedBy("ReplicaSet", "r"), tolerating("k", 60)), pod("d", tolerating("k", 300)),
	} {
		state.Pods.Add(cluster, pod)
	}
	a, b, c, d := cluster.Pods[0], cluster.Pods[1], cluster.Pods[2], cluster.Pods[3]
	if &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] {
		t.Error("two pods of one owner with equal tolerations do not share them")
	}
	if *c.Spec.Tolerations[0].TolerationSeconds != 60 {
		t.Error("a pod with tolerations of its own has lost them")
	}
	if len(d.Spec.Tolerations) != 1 {
		t.Error("a pod without an owner has lost its tolerations")
	}
}
