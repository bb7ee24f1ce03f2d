// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionTaint maps a status of a condition to a NoSchedule taint.
type conditionTaint struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}

var conditionTaints = []conditionTaint{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// noScheduleKeys returns the keys of the NoSchedule taints that a node should have, among those that this package owns.
func noScheduleKeys(node *corev1.Node) []string {
	var keys []string
	for _, rule := range conditionTaints {
		if c := Condition(node, rule.condition); c != nil && c.Status == rule.status {
			keys = append(keys, rule.key)
		}
	}
	if node.Spec.Unschedulable {
		keys = append(keys, corev1.TaintNodeUnschedulable)
	}
	return keys
}

// ownsNoSchedule reports whether a taint is one that noScheduleKeys decides about.
func ownsNoSchedule(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule && (t.Key == corev1.TaintNodeUnschedulable || SaysSick(t.Key))
}

// SaysSick reports whether a taint with this key says what is wrong with a node, so that it goes when the node
// recovers.
func SaysSick(key string) bool {
	return slices.ContainsFunc(conditionTaints, func(rule conditionTaint) bool { return rule.key == key })
}

// noExecuteKeys returns the keys of the NoExecute taints for readiness that a node has.
func noExecuteKeys(node *corev1.Node) []string {
	var keys []string
	for _, t := range node.Spec.Taints {
		if OwnsNoExecute(t) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

// OwnsNoExecute reports whether a taint is a NoExecute taint for readiness.
func OwnsNoExecute(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute &&
		(t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
}

// retaint returns the taints, with the owned ones replaced by taints of the given keys. Taints that stay keep their
// place, value and timeAdded; new taints come last, with the given timeAdded. It also returns whether anything changed.
func retaint(
	current []corev1.Taint, owned func(corev1.Taint) bool, effect corev1.TaintEffect, keys []string, now time.Time,
) ([]corev1.Taint, bool) {
	missing := slices.Clone(keys)
	next := make([]corev1.Taint, 0, len(current)+len(keys))
	for _, t := range current {
		if owned(t) {
			i := slices.Index(missing, t.Key)
			if i < 0 {
				continue
			}
			missing = slices.Delete(missing, i, i+1)
		}
		next = append(next, t)
	}
	for _, key := range missing {
		next = append(next, corev1.Taint{Key: key, Effect: effect, TimeAdded: &metav1.Time{Time: now}})
	}
	return next, len(missing) > 0 || len(next) != len(current)
}

// retaintNoExecute is retaint for the NoExecute taints for readiness. They are one cause with two names, so the taint
// that a node gets counts from the earliest timeAdded of those that it had: a pod's countdown ends when the node has
// not been ready for as long as the pod tolerates, whatever its kubelet said meanwhile. Upstream restarts the
// countdown.
func retaintNoExecute(current []corev1.Taint, keys []string, now time.Time) ([]corev1.Taint, bool) {
	next, changed := retaint(current, OwnsNoExecute, corev1.TaintEffectNoExecute, keys, now)
	earliest := earliestNoExecute(current)
	if !changed || earliest == nil {
		return next, changed
	}
	for i := range next {
		if OwnsNoExecute(next[i]) && (next[i].TimeAdded == nil || earliest.Before(next[i].TimeAdded)) {
			next[i].TimeAdded = earliest.DeepCopy()
		}
	}
	return next, changed
}

// earliestNoExecute returns the earliest timeAdded of the NoExecute taints for readiness; nil if none has one.
func earliestNoExecute(taints []corev1.Taint) *metav1.Time {
	var earliest *metav1.Time
	for _, t := range taints {
		if OwnsNoExecute(t) && t.TimeAdded != nil && (earliest == nil || t.TimeAdded.Before(earliest)) {
			earliest = t.TimeAdded
		}
	}
	return earliest
}

// taintedAt returns when a node was tainted NoExecute for its readiness; zero if it was not, or if that is unknown.
func taintedAt(node *corev1.Node) time.Time {
	var latest time.Time
	for _, taint := range node.Spec.Taints {
		if OwnsNoExecute(taint) && taint.TimeAdded != nil && taint.TimeAdded.After(latest) {
			latest = taint.TimeAdded.Time
		}
	}
	return latest
}
