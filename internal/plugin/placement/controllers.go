// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// Controllers say whether and when pods that leave get successors. They are Jobs by their UID, which count the pods
// they lose. Of other controllers, the pod tells enough.
type Controllers map[types.UID]*job

type job struct {
	*batchv1.Job

	lost int32
}

// ControllersOf returns the controllers of a cluster's pods, which have lost no pod yet.
func ControllersOf(cluster *plan.Cluster) Controllers {
	all := Controllers{}
	for _, one := range cluster.Jobs {
		if one.UID != "" {
			all[one.UID] = &job{Job: one}
		}
	}
	return all
}

func (c Controllers) jobOf(pod *corev1.Pod) *job {
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		return c[controller.UID]
	}
	return nil
}

// Lose counts a pod that leaves.
func (c Controllers) Lose(pod *corev1.Pod) {
	if job := c.jobOf(pod); job != nil {
		job.lost++
	}
}

// WhyWait says why the controller of a pod makes no successor as long as the pod is there, if only as Terminating. It
// is empty if the controller does not wait, or makes none anyway.
func (c Controllers) WhyWait(pod *corev1.Pod) string {
	controller := metav1.GetControllerOfNoCopy(pod)
	job := c.jobOf(pod)
	switch {
	case controller == nil || plan.IsFinished(pod):
	case controller.Kind == statefulSet.Kind || controller.Kind == daemonSet:
		return fmt.Sprintf("Its %s makes no successor until the pod object is deleted.", controller.Kind)
	case job != nil && ptr.Deref(job.Spec.PodReplacementPolicy, "") == batchv1.Failed:
		return "Its Job replaces failed pods only."
	}
	return ""
}

// WhyNone says why a pod that leaves gets no successor; empty if it gets one. A deleted pod is a failed one to its Job,
// unless the pod failure policy says otherwise of disruptions.
func (c Controllers) WhyNone(pod *corev1.Pod) string {
	switch {
	case metav1.GetControllerOfNoCopy(pod) == nil:
		return "It has no controller, so nothing makes a successor."
	case plan.IsFinished(pod):
		return "It has finished, so it needs no successor."
	}
	job := c.jobOf(pod)
	if job == nil {
		return ""
	}
	switch job.onDisruption() {
	case batchv1.PodFailurePolicyActionIgnore:
		return ""
	case batchv1.PodFailurePolicyActionFailJob:
		return "The pod failure policy of its Job fails the Job when a pod is disrupted."
	}
	limit := job.Spec.BackoffLimit
	if limit != nil && int64(job.Status.Failed)+int64(job.lost) > int64(*limit) {
		return fmt.Sprintf("The backoffLimit of its Job is %d, and %d failed before: the Job fails.", *limit, job.Status.Failed)
	}
	return ""
}

// onDisruption returns what the pod failure policy does about pods that taints evict, empty without a rule for them.
func (j *job) onDisruption() batchv1.PodFailurePolicyAction {
	if j.Spec.PodFailurePolicy == nil {
		return ""
	}
	for _, rule := range j.Spec.PodFailurePolicy.Rules {
		if slices.ContainsFunc(rule.OnPodConditions, func(pattern batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return pattern.Type == corev1.DisruptionTarget && pattern.Status == corev1.ConditionTrue
		}) {
			return rule.Action
		}
	}
	return ""
}
