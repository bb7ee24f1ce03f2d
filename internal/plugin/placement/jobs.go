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

	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// jobs are Jobs by their UID, and how many of their pods have left.
type jobs map[types.UID]*job

type job struct {
	*batchv1.Job

	left int32
}

func jobsOf(cluster *plan.Cluster) jobs {
	all := jobs{}
	for _, one := range cluster.Jobs {
		if one.UID != "" {
			all[one.UID] = &job{Job: one}
		}
	}
	return all
}

func (j jobs) of(pod *corev1.Pod) *job {
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		return j[controller.UID]
	}
	return nil
}

// leave counts a pod that leaves.
func (j jobs) leave(pod *corev1.Pod) {
	if job := j.of(pod); job != nil {
		job.left++
	}
}

// reasonWithout says why the Job of a pod makes no successor; empty if it makes one, or the pod has no Job. A deleted
// pod is a failed one to a Job, unless its pod failure policy says otherwise of disruptions.
func (j jobs) reasonWithout(pod *corev1.Pod, unreachable bool) string {
	job := j.of(pod)
	if job == nil {
		return ""
	}
	policy := job.Spec.PodReplacementPolicy
	if unreachable && policy != nil && *policy == batchv1.Failed {
		return "Its node is unreachable, so the pod stays Terminating. Its Job replaces failed pods only."
	}
	switch job.onDisruption() {
	case batchv1.PodFailurePolicyActionIgnore:
		return ""
	case batchv1.PodFailurePolicyActionFailJob:
		return "The pod failure policy of its Job fails the Job when a pod is disrupted."
	}
	limit := job.Spec.BackoffLimit
	if limit != nil && int64(job.Status.Failed)+int64(job.left) > int64(*limit) {
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
