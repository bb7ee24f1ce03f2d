// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// unreachableIndefinitely: pods of a DaemonSet, static pods and pods without a controller get no successor on another
// node.
var unreachableIndefinitely = Rule{
	ID:       "unreachable-indefinitely",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A workload tolerates an unreachable node indefinitely",
	Advice:   "Tolerate node.kubernetes.io/unreachable with tolerationSeconds, before any toleration that matches everything.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if !workload.isReplaced() {
				continue
			}
			finding := Finding{Object: workload.CheckedObject}
			for _, list := range workload.Lists {
				if toleration, tolerated := first(list.Effective, unreachable); tolerated && toleration.TolerationSeconds == nil {
					finding.Message = fmt.Sprintf("Its pods are not replaced when their node fails, because of toleration %s.", literal(*toleration))
					finding.Names = append(finding.Names, names(list.Pods)...)
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
