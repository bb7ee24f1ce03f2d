// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
)

// SlimPod returns what is kept of a pod.
func SlimPod(pod *corev1.Pod) *corev1.Pod { return Pods.Keep(pod).(*corev1.Pod) }

// SlimNode returns what is kept of a node. Images are kept only for the scheduler, see [SlimImages].
func SlimNode(node *corev1.Node) *corev1.Node { return Nodes.Keep(node).(*corev1.Node) }

// SchedulingAnnotations are the annotations that are read by the scheduler, by the code that binds volumes for it, and
// by the API server when it adds tolerations. Snapshots contain no others, except the mark of a static pod and
// Taintkeeper's own.
var SchedulingAnnotations = []string{
	corev1.BetaStorageClassAnnotation,
	corev1.MigratedPluginsAnnotationKey,
	"pv.kubernetes.io/bind-completed",
	"pv.kubernetes.io/bound-by-controller",
	"pv.kubernetes.io/migrated-to",
	"volume.kubernetes.io/selected-node",
	// On namespaces, for the admission plugin PodTolerationRestriction.
	"scheduler.alpha.kubernetes.io/defaultTolerations",
	"scheduler.alpha.kubernetes.io/tolerationsWhitelist",
}

func keepAnnotations(kept, from metav1.Object) {
	annotations := map[string]string{}
	for _, key := range SchedulingAnnotations {
		if value, ok := from.GetAnnotations()[key]; ok {
			annotations[key] = value
		}
	}
	if len(annotations) > 0 {
		kept.SetAnnotations(annotations)
	}
}

// slimPod reduces what was kept of a pod to what commands need: what some values mean, and which of a list matter.
func slimPod(pod, from *corev1.Pod) {
	if IsStatic(from) {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "true"}
	}
	slimContainers(pod.Spec.Containers, from.Spec.Containers)
	slimContainers(pod.Spec.InitContainers, from.Spec.InitContainers)
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			image.Reference = slimImage(image.Reference)
		}
	}
	pod.Spec.Volumes = without(pod.Spec.Volumes, func(volume *corev1.Volume) bool {
		return volume.VolumeSource == corev1.VolumeSource{}
	})
	pod.Status.Conditions = without(pod.Status.Conditions, func(condition *corev1.PodCondition) bool {
		switch condition.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.DisruptionTarget, corev1.PodResizePending:
			return false
		}
		return true
	})
	pod.Status.ContainerStatuses = slimStatuses(pod.Status.ContainerStatuses, from.Spec.Containers)
	pod.Status.InitContainerStatuses = slimStatuses(pod.Status.InitContainerStatuses, from.Spec.InitContainers)
}

func slimContainers(kept, from []corev1.Container) {
	for i := range kept {
		kept[i].Image, kept[i].Command = slimImage(from[i].Image), builtin.CommandOf(&from[i])
		ports := slices.Clone(from[i].Ports)
		kept[i].Ports = without(ports, func(port *corev1.ContainerPort) bool { return port.HostPort == 0 })
	}
}

// slimStatuses keeps the resources that the kubelet has granted, for containers that now request others.
func slimStatuses(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.ContainerStatus {
	requested := map[string]corev1.ResourceList{}
	for i := range containers {
		requested[containers[i].Name] = containers[i].Resources.Requests
	}
	return without(statuses, func(status *corev1.ContainerStatus) bool {
		requests := requested[status.Name]
		resized := status.Resources != nil && !sameResources(status.Resources.Requests, requests) ||
			status.AllocatedResources != nil && !sameResources(status.AllocatedResources, requests)
		return !resized
	})
}

func sameResources(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// without removes elements from a slice that nobody shares. It is nil if none is left.
func without[T any](all []T, drop func(*T) bool) []T {
	kept := all[:0]
	for i := range all {
		if !drop(&all[i]) {
			kept = append(kept, all[i])
		}
	}
	switch len(kept) {
	case 0:
		return nil
	case len(all):
		return all
	}
	return slices.Clone(kept) // there are many pods
}

// isJobOver reports whether a Job creates no more pods.
func isJobOver(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
		over := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		return over && condition.Status == corev1.ConditionTrue
	})
}
