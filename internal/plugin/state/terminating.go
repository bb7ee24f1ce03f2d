// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// TerminationOf says since when a terminating pod is deleted, and what it waits for. Its node is nil if it has none, if
// the node does not exist (gone), and if it could not be read.
func TerminationOf(pod *corev1.Pod, node *corev1.Node, gone bool, at time.Time) *cliv1alpha1.Termination {
	until := pod.DeletionTimestamp.Time
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	t := &cliv1alpha1.Termination{
		Since: metav1.NewTime(until.Add(-grace)), Until: metav1.NewTime(until), Finalizers: pod.Finalizers,
	}
	if c := DisruptionOf(pod); c != nil {
		t.Cause = c.Reason
	}
	switch {
	case gone || node != nil && IsOutOfService(node):
		t.WaitsFor = cliv1alpha1.WaitsForGarbageCollection
	case node != nil && readiness.IsUnknown(node) && !IsFinished(pod):
		t.WaitsFor = cliv1alpha1.WaitsForSilentKubelet
	case at.Before(until):
		t.WaitsFor = cliv1alpha1.WaitsForContainers
	case len(pod.Finalizers) > 0:
		t.WaitsFor = cliv1alpha1.WaitsForFinalizers
	default:
		t.WaitsFor = cliv1alpha1.WaitsForKubelet
	}
	return t
}

// Waits names what terminating pods wait for.
var Waits = map[cliv1alpha1.TerminationWait]string{
	cliv1alpha1.WaitsForContainers:        "its containers",
	cliv1alpha1.WaitsForKubelet:           "its kubelet, which is alive",
	cliv1alpha1.WaitsForSilentKubelet:     "its kubelet, which is silent",
	cliv1alpha1.WaitsForFinalizers:        "its finalizers",
	cliv1alpha1.WaitsForGarbageCollection: "pod garbage collection",
}

// DisruptionOf returns the condition that says why a pod is deleted, or nil.
func DisruptionOf(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
