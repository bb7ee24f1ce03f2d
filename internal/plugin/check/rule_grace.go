// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// shortGrace reads the Lease of Taintkeeper's leader. The built-in looks every 5 s, so it waits longer than that.
var shortGrace = Rule{
	ID:       "short-grace-period",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "One late renewal makes a node that lives NotReady",
	Advice: "Raise " + readiness.MonitorGraceFlag + " to at least " + readiness.LeastGrace.String() +
		", or let kubelets renew their Leases more often.",
	Find: func(facts *Facts) []Finding {
		leader := facts.who.Process.Leader
		if leader == nil || leader.MonitorGrace == 0 {
			return nil
		}
		if warning := (readiness.Grace{Monitor: leader.MonitorGrace}).Warning(); warning != "" {
			return facts.nodeHealth.found(Finding{Message: warning + "."})
		}
		return nil
	},
}
