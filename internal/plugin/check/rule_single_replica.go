// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// singleReplica: the 300 seconds are a default, and there is no other replica meanwhile.
var singleReplica = Rule{
	ID:       "single-replica",
	Severity: cliv1alpha1.SeverityInfo,
	Title:    "A single replica waits for the default time on a failed node",
	Advice:   "Run a second replica, or tolerate not-ready and unreachable for as long as the workload may be unavailable.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if workload.Replicas != 1 || !workload.isReplaced() || workload.Kind == "Job" || workload.Kind == "CronJob" {
				continue
			}
			list := workload.Lists[0]
			if toleration, tolerated := first(list.Effective, unreachable); tolerated && isDefault(*toleration) {
				all = append(all, Finding{
					Object:  workload.Object,
					Message: fmt.Sprintf("Its only replica waits the default %d s on an unreachable node before it is replaced.", defaultSeconds),
					Names:   names(list.Pods),
				})
			}
		}
		return all
	},
}

// isDefault reports whether a toleration is the one that the admission plugin DefaultTolerationSeconds adds.
func isDefault(t corev1.Toleration) bool {
	return t.Key == corev1.TaintNodeUnreachable && t.TolerationSeconds != nil && *t.TolerationSeconds == defaultSeconds
}
