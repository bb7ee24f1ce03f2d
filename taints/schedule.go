// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// This file is the scheduler's TaintToleration plugin of Kubernetes 1.37. It ignores tolerationSeconds.

// UnschedulableMessage is what the plugin's Filter says about a node with an untolerated taint. The scheduler puts
// exactly this text into the PodScheduled condition and the FailedScheduling event of a pod.
const UnschedulableMessage = "node(s) had untolerated taint(s)"

// MaxNodeScore is the scheduler's best score; the worst is 0.
const MaxNodeScore int64 = 100

// Untolerated is the plugin's Filter: it finds the first taint, in list order, that keeps a pod with these tolerations
// from being scheduled to the node. Only taints with effect NoSchedule or NoExecute do. Without one, found is false.
func (m Matcher) Untolerated(taints []corev1.Taint, tolerations []corev1.Toleration) (taint corev1.Taint, found bool) {
	for i := range taints {
		if !forbidsScheduling(taints[i].Effect) {
			continue
		}
		if _, ok := m.First(tolerations, &taints[i]); !ok {
			return taints[i], true
		}
	}
	return corev1.Taint{}, false
}

// CountIntolerable is the plugin's Score for one node before [Normalize]: the number of taints with effect
// PreferNoSchedule that none of the tolerations matches.
func (m Matcher) CountIntolerable(taints []corev1.Taint, tolerations []corev1.Toleration) int {
	count := 0
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule {
			continue
		}
		// The plugin first drops tolerations with another effect. They match none of these taints anyway.
		if _, ok := m.First(tolerations, &taints[i]); !ok {
			count++
		}
	}
	return count
}

// Normalize is the plugin's NormalizeScore: it turns the counts of [Matcher.CountIntolerable], one for each node that
// passed the filter, into scores from 0 to [MaxNodeScore], where the greatest count gets 0 and no taint gets 100. Other
// counts get 100 minus their percentage of the greatest, which is rounded down before it is subtracted. When all counts
// are 0, all nodes get 100. Counts must not be negative.
func Normalize(counts []int) []int64 {
	var most int64
	for _, count := range counts {
		most = max(most, int64(count))
	}
	if most == 0 {
		return slices.Repeat([]int64{MaxNodeScore}, len(counts))
	}
	scores := make([]int64, len(counts))
	for i, count := range counts {
		scores[i] = MaxNodeScore - MaxNodeScore*int64(count)/most
	}
	return scores
}

func forbidsScheduling(effect corev1.TaintEffect) bool {
	return effect == corev1.TaintEffectNoSchedule || effect == corev1.TaintEffectNoExecute
}
