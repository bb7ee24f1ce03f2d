// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
)

// SlimPod returns the parts of a pod that a plan needs. It lists everything that is kept, so that nothing leaves a
// cluster by accident: environment, commands, annotations, names of secrets.
func SlimPod(pod *corev1.Pod) *corev1.Pod {
	slim := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: slimMeta(&pod.ObjectMeta),
		Spec: corev1.PodSpec{
			NodeName:                      pod.Spec.NodeName,
			NodeSelector:                  pod.Spec.NodeSelector,
			Affinity:                      pod.Spec.Affinity,
			Tolerations:                   pod.Spec.Tolerations,
			TopologySpreadConstraints:     pod.Spec.TopologySpreadConstraints,
			Priority:                      pod.Spec.Priority,
			PriorityClassName:             pod.Spec.PriorityClassName,
			PreemptionPolicy:              pod.Spec.PreemptionPolicy,
			SchedulerName:                 pod.Spec.SchedulerName,
			SchedulingGates:               pod.Spec.SchedulingGates,
			TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
			HostNetwork:                   pod.Spec.HostNetwork,
			Overhead:                      pod.Spec.Overhead,
			Resources:                     pod.Spec.Resources,
			Containers:                    slimContainers(pod.Spec.Containers),
			InitContainers:                slimContainers(pod.Spec.InitContainers),
			Volumes:                       slimVolumes(pod.Spec.Volumes),
			ResourceClaims:                pod.Spec.ResourceClaims,
		},
		Status: corev1.PodStatus{
			Phase:             pod.Status.Phase,
			QOSClass:          pod.Status.QOSClass,
			NominatedNodeName: pod.Status.NominatedNodeName,
			Conditions:        slimConditions(pod.Status.Conditions),

			// While a pod is being resized, it holds more than it requests.
			ContainerStatuses:     slimStatuses(pod.Status.ContainerStatuses, pod.Spec.Containers),
			InitContainerStatuses: slimStatuses(pod.Status.InitContainerStatuses, pod.Spec.InitContainers),
			Resources:             pod.Status.Resources,
			AllocatedResources:    pod.Status.AllocatedResources,
		},
	}
	if IsStatic(pod) {
		slim.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "true"}
	}
	return slim
}

func slimMeta(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
		Labels: meta.Labels, OwnerReferences: meta.OwnerReferences, Finalizers: meta.Finalizers,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
		DeletionGracePeriodSeconds: meta.DeletionGracePeriodSeconds,
	}
}

func slimContainers(containers []corev1.Container) []corev1.Container {
	var all []corev1.Container
	for i := range containers {
		container := corev1.Container{
			Name: containers[i].Name, Image: slimImage(containers[i].Image), Command: builtin.CommandOf(&containers[i]),
			Resources: containers[i].Resources, RestartPolicy: containers[i].RestartPolicy,
		}
		for _, port := range containers[i].Ports {
			if port.HostPort != 0 {
				container.Ports = append(container.Ports, port)
			}
		}
		all = append(all, container)
	}
	return all
}

// slimStatuses keeps the resources that the kubelet has granted, for containers that now request others.
func slimStatuses(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.ContainerStatus {
	requested := map[string]corev1.ResourceList{}
	for i := range containers {
		requested[containers[i].Name] = containers[i].Resources.Requests
	}
	var all []corev1.ContainerStatus
	for i := range statuses {
		status, requests := &statuses[i], requested[statuses[i].Name]
		resized := status.Resources != nil && !sameResources(status.Resources.Requests, requests) ||
			status.AllocatedResources != nil && !sameResources(status.AllocatedResources, requests)
		if resized {
			all = append(all, corev1.ContainerStatus{
				Name: status.Name, Resources: status.Resources, AllocatedResources: status.AllocatedResources,
			})
		}
	}
	return all
}

func sameResources(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// slimVolumes keeps images, the volumes that tie a pod to a node or a zone, and those that two pods cannot share.
func slimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var all []corev1.Volume
	for i := range volumes {
		switch source := &volumes[i].VolumeSource; {
		case source.PersistentVolumeClaim != nil:
			claim := corev1.VolumeSource{PersistentVolumeClaim: source.PersistentVolumeClaim}
			all = append(all, corev1.Volume{Name: volumes[i].Name, VolumeSource: claim})
		case source.Ephemeral != nil:
			ephemeral := corev1.VolumeSource{Ephemeral: slimEphemeral(source.Ephemeral)}
			all = append(all, corev1.Volume{Name: volumes[i].Name, VolumeSource: ephemeral})
		case source.Image != nil:
			image := corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: slimImage(source.Image.Reference)}}
			all = append(all, corev1.Volume{Name: volumes[i].Name, VolumeSource: image})
		default:
			if disk, ok := slimDisk(source); ok {
				all = append(all, corev1.Volume{Name: volumes[i].Name, VolumeSource: disk})
			}
		}
	}
	return all
}

func slimEphemeral(source *corev1.EphemeralVolumeSource) *corev1.EphemeralVolumeSource {
	if source.VolumeClaimTemplate == nil {
		return source
	}
	claim := SlimClaim(&corev1.PersistentVolumeClaim{Spec: source.VolumeClaimTemplate.Spec})
	return &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim.Spec}}
}

// slimDisk keeps what identifies a disk that is named in the pod itself.
func slimDisk(source *corev1.VolumeSource) (corev1.VolumeSource, bool) {
	switch {
	case source.GCEPersistentDisk != nil:
		return corev1.VolumeSource{GCEPersistentDisk: source.GCEPersistentDisk}, true
	case source.AWSElasticBlockStore != nil:
		return corev1.VolumeSource{AWSElasticBlockStore: source.AWSElasticBlockStore}, true
	case source.ISCSI != nil:
		return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{
			IQN: source.ISCSI.IQN, ReadOnly: source.ISCSI.ReadOnly,
		}}, true
	case source.RBD != nil:
		return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{
			CephMonitors: source.RBD.CephMonitors, ReadOnly: source.RBD.ReadOnly,
			RBDPool: source.RBD.RBDPool, RBDImage: source.RBD.RBDImage,
		}}, true
	}
	return corev1.VolumeSource{}, false
}

// slimConditions keeps the conditions that say when a pod was bound, whether it is ready, what disrupts it, and whether
// it can be resized.
func slimConditions(conditions []corev1.PodCondition) []corev1.PodCondition {
	var all []corev1.PodCondition
	for i := range conditions {
		condition := conditions[i]
		switch condition.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.DisruptionTarget, corev1.PodResizePending:
			all = append(all, corev1.PodCondition{
				Type: condition.Type, Status: condition.Status, Reason: condition.Reason, Message: condition.Message,
				LastTransitionTime: condition.LastTransitionTime,
			})
		}
	}
	return all
}

// SlimNode returns the parts of a node that a plan needs.
func SlimNode(node *corev1.Node) *corev1.Node {
	meta := slimMeta(&node.ObjectMeta)
	meta.ManagedFields = slimManagers(node.ManagedFields)
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: meta,
		Spec:       corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{
			Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity,
			Conditions: node.Status.Conditions,
		},
	}
}
