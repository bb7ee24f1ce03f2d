// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Unadmitted returns those of a node's taints because of which its kubelet, when it starts, ends a pod with these
// tolerations: the NoExecute taints that none of them matches. tolerationSeconds play no part
// (pkg/kubelet/lifecycle/predicate.go).
func (m Matcher) Unadmitted(taints []corev1.Taint, tolerations []corev1.Toleration) (unadmitted []corev1.Taint) {
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectNoExecute {
			continue
		}
		if _, tolerated := m.First(tolerations, &taints[i]); !tolerated {
			unadmitted = append(unadmitted, taints[i])
		}
	}
	return unadmitted
}

// ForNoTime returns the toleration that matches exactly this taint, for 0 seconds. A pod that gets it must leave when
// it had to before, but a kubelet that starts admits it.
func ForNoTime(taint corev1.Taint) corev1.Toleration {
	return corev1.Toleration{
		Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
		TolerationSeconds: new(int64),
	}
}

// IsForNoTime reports whether a toleration is like those of [ForNoTime].
func IsForNoTime(t corev1.Toleration) bool {
	return t.Operator == corev1.TolerationOpEqual && t.Effect == corev1.TaintEffectNoExecute &&
		t.TolerationSeconds != nil && *t.TolerationSeconds == 0
}

// Lasting returns the tolerations without those of [ForNoTime], which only a pod has, and not the template that its
// controller creates pods from.
func Lasting(tolerations []corev1.Toleration) []corev1.Toleration {
	if !slices.ContainsFunc(tolerations, IsForNoTime) {
		return tolerations
	}
	return slices.DeleteFunc(slices.Clone(tolerations), IsForNoTime)
}
