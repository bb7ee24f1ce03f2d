// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// Controllers say whether and when pods that leave get successors. They contain only Jobs, by UID, because Jobs count
// the pods they lose. For other controllers, the pod says enough.
type Controllers map[types.UID]*job

type job struct {
	*batchv1.Job

	lost    int32
	indexes map[string]int32 // how often pods of each index failed, if the Job counts indexes separately
}

// ControllersOf returns the controllers of a cluster's pods. They have not lost any pods yet.
func ControllersOf(cluster *state.Cluster) Controllers {
	all := Controllers{}
	for _, one := range cluster.Jobs {
		if one.UID != "" {
			all[one.UID] = &job{Job: one, indexes: map[string]int32{}}
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

// Lose counts a pod that leaves before it has finished. The Job has already counted finished pods.
func (c Controllers) Lose(pod *corev1.Pod) {
	job := c.jobOf(pod)
	if job == nil || job.onDisruption() == batchv1.PodFailurePolicyActionIgnore {
		return
	}
	job.lost++
	if job.Spec.BackoffLimitPerIndex != nil {
		before, _ := strconv.ParseInt(pod.Annotations[batchv1.JobIndexFailureCountAnnotation], 10, 32)
		job.indexes[indexOf(pod)] = max(job.indexes[indexOf(pod)], int32(before)) + 1
	}
}

func indexOf(pod *corev1.Pod) string { return pod.Labels[batchv1.JobCompletionIndexAnnotation] }

// The first delay of a Job after a failed pod, and the longest one (pkg/controller/job).
const (
	backoff        = 10 * time.Second
	longestBackoff = 10 * time.Minute
)

// Backoff returns how long the controller of a lost pod waits before it creates another.
func (c Controllers) Backoff(pod *corev1.Pod) time.Duration {
	job := c.jobOf(pod)
	if job == nil {
		return 0
	}
	failures := job.lost
	if job.Spec.BackoffLimitPerIndex != nil {
		failures = job.indexes[indexOf(pod)]
	}
	if failures == 0 {
		return 0
	}
	return min(backoff<<min(failures-1, 10), longestBackoff)
}

// replacing are the kinds of controllers that Kubernetes has for pods.
var replacing = []string{replicaSet.Kind, replicationController.Kind, statefulSet.Kind, daemonSet, "Job", "Node"}

// WhyUnknown says why it is not known whether a pod that leaves gets a successor. It is empty if that is known.
// Kubernetes' own groups, such as apps, have no domain.
func (c Controllers) WhyUnknown(pod *corev1.Pod) string {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || state.IsFinished(pod) {
		return ""
	}
	group, _, _ := strings.Cut(controller.APIVersion, "/")
	if !strings.Contains(group, ".") && slices.Contains(replacing, controller.Kind) {
		return ""
	}
	return fmt.Sprintf("Its owner %s %s is not a controller of Kubernetes, so it is not known whether it creates another pod.",
		controller.Kind, controller.Name)
}

// WhyWait says why the controller of a pod creates no successor while the pod exists, even if it is Terminating. It is
// empty if the controller does not wait, or never creates one.
func (c Controllers) WhyWait(pod *corev1.Pod) string {
	controller := metav1.GetControllerOfNoCopy(pod)
	job := c.jobOf(pod)
	switch {
	case controller == nil || state.IsFinished(pod) || c.WhyUnknown(pod) != "":
	case controller.Kind == statefulSet.Kind || controller.Kind == daemonSet:
		return fmt.Sprintf("Its %s creates no successor until the pod object is deleted.", controller.Kind)
	case job != nil && ptr.Deref(job.Spec.PodReplacementPolicy, "") == batchv1.Failed:
		return "Its Job replaces only failed pods."
	}
	return ""
}

// WhyNone says why a pod that leaves gets no successor. It is empty if it gets one. A Job counts a deleted pod as
// failed, unless its pod failure policy treats disruptions differently.
func (c Controllers) WhyNone(pod *corev1.Pod) string {
	switch {
	case metav1.GetControllerOfNoCopy(pod) == nil:
		return "It has no controller, so nothing creates a successor."
	case state.IsFinished(pod):
		return "It has finished, so it needs no successor."
	}
	job := c.jobOf(pod)
	if job == nil {
		return ""
	}
	return cmp.Or(job.whyFails(), job.whyIndexFails(pod))
}

// WhyFails says why the Job of a lost pod fails, which ends its other pods. It is empty if the Job does not fail.
func (c Controllers) WhyFails(pod *corev1.Pod) string {
	if job := c.jobOf(pod); job != nil {
		return job.whyFails()
	}
	return ""
}

func (j *job) whyFails() string {
	limit, most := j.Spec.BackoffLimit, j.Spec.MaxFailedIndexes
	switch {
	case j.onDisruption() == batchv1.PodFailurePolicyActionFailJob:
		return "The pod failure policy of its Job fails the Job when a pod is disrupted."
	case j.onDisruption() == batchv1.PodFailurePolicyActionIgnore:
	case limit != nil && int64(j.Status.Failed)+int64(j.lost) > int64(*limit):
		return fmt.Sprintf("With the pods that leave, its Job has more failed pods than its backoffLimit of %d allows, so the Job fails.", *limit)
	case most != nil && j.failedIndexes() > int(*most):
		return fmt.Sprintf("With the pods that leave, its Job has more failed indexes than its maxFailedIndexes of %d allows, so the Job fails.", *most)
	}
	return ""
}

func (j *job) whyIndexFails(pod *corev1.Pod) string {
	if !j.fails(indexOf(pod)) {
		return ""
	}
	return fmt.Sprintf("The backoffLimitPerIndex of its Job is %d, so the index of the pod fails.", *j.Spec.BackoffLimitPerIndex)
}

// fails reports whether an index has failed since the start.
func (j *job) fails(index string) bool {
	limit, failures := j.Spec.BackoffLimitPerIndex, j.indexes[index]
	return limit != nil && failures > 0 &&
		(failures > *limit || j.onDisruption() == batchv1.PodFailurePolicyActionFailIndex)
}

// failedIndexes returns how many indexes have failed, before and after the start.
func (j *job) failedIndexes() (failed int) {
	for index := range j.indexes {
		if j.fails(index) {
			failed++
		}
	}
	for interval := range strings.SplitSeq(ptr.Deref(j.Status.FailedIndexes, ""), ",") { // such as 1,3-5
		from, to, several := strings.Cut(interval, "-")
		first, err := strconv.Atoi(from)
		last, _ := strconv.Atoi(to)
		switch {
		case several:
			failed += last - first + 1
		case err == nil:
			failed++
		}
	}
	return failed
}

// onDisruption returns what the pod failure policy does with pods that taints evict. It is empty if no rule applies.
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
