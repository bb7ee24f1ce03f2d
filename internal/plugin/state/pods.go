// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// IsOutOfService reports whether pod garbage collection deletes the terminating pods of a node, whose kubelet does not
// end them: the node is not ready and has the taint out-of-service (gcTerminating in pkg/controller/podgc).
func IsOutOfService(node *corev1.Node) bool {
	return !readiness.IsReady(node) && slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeOutOfService
	})
}

// FactsOf are what the rule needs to know about a pod.
func FactsOf(pod *corev1.Pod, at time.Time) verdict.Pod {
	return verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: verdict.SeenAt(at).Start(verdict.Bound(pod))}
}

// Unwanted reports whether the DaemonSet controller deletes a pod regardless of policies. It does if the pod does not
// tolerate a NoExecute taint at all (NodeShouldRunDaemonPod in pkg/controller/daemon).
func Unwanted(pod *corev1.Pod, causes []policy.Cause) bool {
	return IsOfDaemonSet(pod) && Refused(pod.Spec.Tolerations, causes)
}

// IsOfDaemonSet reports whether a DaemonSet controls a pod.
func IsOfDaemonSet(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller != nil && controller.Kind == "DaemonSet"
}

// Refused reports whether tolerations do not tolerate one of the causes at all.
func Refused(tolerations []corev1.Toleration, causes []policy.Cause) bool {
	return slices.ContainsFunc(causes, func(cause policy.Cause) bool {
		_, untolerated := Rule.Matcher.Untolerated([]corev1.Taint{*cause.Taint}, taints.Lasting(tolerations))
		return untolerated
	})
}

// EndedBy returns a taint, formatted, because of which a kubelet that starts ends a pod with these tolerations. It is
// empty if there is none.
func EndedBy(tolerations []corev1.Toleration, onNode []verdict.Taint) string {
	for _, taint := range onNode {
		if len(Rule.Matcher.Unadmitted([]corev1.Taint{taint.Taint}, tolerations)) > 0 {
			return taints.Format(taint.Taint)
		}
	}
	return ""
}
