// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"time"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// shortGrace reads the flags of Taintkeeper's pods. The built-in looks every 5 s, so it waits longer than that.
var shortGrace = Rule{
	ID:       "short-grace-period",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "One late renewal makes a node that lives NotReady",
	Advice: "Raise " + readiness.MonitorGraceFlag + " to at least " + readiness.LeastGrace.String() +
		", or let kubelets renew their Leases more often.",
	Find: func(facts *Facts) []Finding {
		running := facts.Running(facts.Signs.At)
		if !slices.Contains(running.Controllers(), nodeHealth) {
			return nil
		}
		standard := readiness.DefaultMonitorGrace.String()
		grace, err := time.ParseDuration(plan.ValueOf(readiness.MonitorGraceFlag, running.Flags, standard))
		warning := readiness.Grace{Monitor: grace}.Warning()
		if err != nil || warning == "" {
			return nil
		}
		return facts.nodeHealth.found(Finding{Message: warning + "."})
	},
}
