// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// unreachableIndefinitely: pods of a DaemonSet, static pods and pods without a controller get no successor on another
// node.
var unreachableIndefinitely = Rule{
	ID:       "unreachable-indefinitely",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A workload tolerates an unreachable or not ready node indefinitely",
	Advice:   "Tolerate node.kubernetes.io/unreachable and not-ready with tolerationSeconds, before any toleration that matches everything.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if !workload.isReplaced() {
				continue
			}
			finding := Finding{Object: workload.Object}
			for _, list := range workload.Lists {
				for _, failed := range []struct {
					taint corev1.Taint
					when  string
				}{{unreachable, "when their node fails"}, {notReady, "while their node is not ready"}} {
					toleration, tolerated := first(list.Effective, failed.taint)
					if tolerated && toleration.TolerationSeconds == nil {
						finding.Message = fmt.Sprintf("Its pods are not replaced %s, because of toleration %s.", failed.when, literal(*toleration))
						finding.Names = append(finding.Names, names(list.Pods)...)
						break
					}
				}
			}
			if finding.Message != "" {
				all = append(all, finding)
			}
		}
		return all
	},
}

// isReplaced reports whether a controller creates a successor of the workload's pods on another node.
func (w *Workload) isReplaced() bool {
	switch w.Kind {
	case "DaemonSet", "Pod", "Node":
		return false
	}
	return true
}
