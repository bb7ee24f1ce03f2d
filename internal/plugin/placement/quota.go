// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
)

// podQuota counts pods for quotas. Its clock is for pods that terminate, which it does not see.
var podQuota = core.NewPodEvaluator(nil, clock.RealClock{})

// QuotaCounts reports whether a pod counts in a quota, according to its scopes.
func QuotaCounts(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	known := *quota
	known.Status.Hard = quota.Spec.Hard // which the quota controller copies
	counts, err := podQuota.Matches(&known, pod)
	return counts && err == nil
}

// QuotaUsage returns what quotas count of a pod, also if it is terminating.
func QuotaUsage(pod *corev1.Pod) corev1.ResourceList {
	stays := *pod
	stays.DeletionTimestamp = nil
	uses, _ := podQuota.Usage(&stays) // it fails for objects that are not pods
	return uses
}
