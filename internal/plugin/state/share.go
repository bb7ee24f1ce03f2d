// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sharer lets the pods of one owner share their equal parts, which are almost everything. A big cluster then takes a
// third of the memory. The zero value is ready to use; it is not safe for concurrent use.
type sharer struct {
	siblings map[types.UID]*corev1.Pod
}

// share replaces the parts of a pod that equal those of an earlier pod of the same owner, and returns the pod.
func (s *sharer) share(pod *corev1.Pod) *corev1.Pod {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return pod
	}
	sibling := s.siblings[controller.UID]
	if sibling == nil {
		if s.siblings == nil {
			s.siblings = map[types.UID]*corev1.Pod{}
		}
		s.siblings[controller.UID] = pod
		return pod
	}
	shareIfEqual(&pod.Labels, sibling.Labels)
	shareIfEqual(&pod.OwnerReferences, sibling.OwnerReferences)
	shareIfEqual(&pod.Spec.Tolerations, sibling.Spec.Tolerations)
	shareIfEqual(&pod.Spec.Containers, sibling.Spec.Containers)
	shareIfEqual(&pod.Spec.InitContainers, sibling.Spec.InitContainers)
	shareIfEqual(&pod.Spec.Affinity, sibling.Spec.Affinity)
	shareIfEqual(&pod.Spec.NodeSelector, sibling.Spec.NodeSelector)
	shareIfEqual(&pod.Spec.TopologySpreadConstraints, sibling.Spec.TopologySpreadConstraints)
	shareIfEqual(&pod.Spec.Volumes, sibling.Spec.Volumes)
	return pod
}

func shareIfEqual[T any](mine *T, theirs T) {
	if equality.Semantic.DeepEqual(*mine, theirs) {
		*mine = theirs
	}
}
