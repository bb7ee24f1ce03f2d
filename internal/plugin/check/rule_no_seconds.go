// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
)

// noSeconds: the scheduler ignores tolerationSeconds, so it puts such a pod on a node that it must leave immediately.
var noSeconds = Rule{
	ID:       "no-seconds",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration expires immediately",
	Advice:   "Remove the toleration, or set tolerationSeconds to the time that the pod needs.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			if seconds := list[i].TolerationSeconds; seconds == nil || *seconds > 0 || len(faultsOf(list[i])) > 0 {
				return Finding{}
			}
			if taints.IsForNoTime(list[i]) {
				return Finding{
					Severity: cliv1alpha1.SeverityInfo,
					Message:  fmt.Sprintf("Toleration %s is like those that Taintkeeper adds to a due pod that stays, so that the pod survives a restart of its kubelet.", literal(list[i])),
					Advice:   "If Taintkeeper added it, there is nothing to do. If the manifest of the pods has it, remove it there.",
				}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s lets pods be scheduled to a node with this taint, which they must then leave immediately.", literal(list[i]))}
		})
	},
}
