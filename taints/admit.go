// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import corev1 "k8s.io/api/core/v1"

// Unadmitted returns the taints because of which a kubelet that starts on a node with these taints ends a pod with these
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

// ForNoTime returns the toleration that matches exactly this taint, for 0 seconds. A pod that gets it must leave when it
// had to before, but a kubelet that starts admits it.
func ForNoTime(taint corev1.Taint) corev1.Toleration {
	return corev1.Toleration{
		Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
		TolerationSeconds: new(int64),
	}
}
