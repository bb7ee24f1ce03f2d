// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
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
