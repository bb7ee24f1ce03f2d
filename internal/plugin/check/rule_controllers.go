// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// evictionControllers requires that exactly one controller evicts.
var evictionControllers = Rule{
	ID:       "eviction-controllers",
	Severity: cliv1alpha1.SeverityError,
	Title:    "No controller evicts, or more than one does",
	Advice:   "Run Taintkeeper with --coexist, or switch the built-in off with --controllers=*,-taint-eviction-controller.",
	Find: func(facts *Facts) []Finding {
		task := &facts.eviction
		switch {
		case task.Who == cliv1alpha1.WhoNobody:
			return task.found(Finding{
				Message: "Nothing evicts: pods stay on nodes with NoExecute taints that they do not tolerate.",
				Advice:  "Start Taintkeeper, or switch the built-in taint-eviction-controller on.",
			})
		case task.ours == who.Absent && task.builtIn == who.NotRunning:
			return task.found(Finding{
				Severity: cliv1alpha1.SeverityWarning,
				Message:  "The built-in does not evict, and there is no sign that Taintkeeper does.",
				Advice:   "Start Taintkeeper, or switch the built-in taint-eviction-controller on.",
			})
		case task.Who == cliv1alpha1.WhoBoth && facts.who.Clock == cliv1alpha1.ClockStale:
			return task.found(Finding{
				Message: "Taintkeeper leads but does not renew its eviction clock, so the built-in evicts as well.",
				Advice:  "Read Taintkeeper's log, which says why it does not renew the clock.",
			})
		case task.Who == cliv1alpha1.WhoBoth:
			return task.found(Finding{Message: "Taintkeeper and the built-in both evict, so a pod leaves as soon as either of them evicts it." + task.did})
		case task.ours == who.NotRunning && facts.who.Clock == cliv1alpha1.ClockStale:
			return task.found(Finding{
				Severity: cliv1alpha1.SeverityWarning,
				Message:  "Taintkeeper does not evict: its eviction clock is stale, so the built-in evicts if it is on.",
				Advice:   "Find out why Taintkeeper does not evict. If you have uninstalled it, wait until the built-in's backlog is over, and then delete what Helm kept: docs/installation.md#uninstall.",
			})
		case task.ours == who.Running && task.builtIn == who.Unknown && !task.held:
			return task.found(Finding{
				Severity: cliv1alpha1.SeverityWarning,
				Message:  "Taintkeeper evicts, and nothing shows whether the built-in does too.",
			})
		}
		return nil
	},
}

// nodeHealthControllers: two controllers would taint at twice the rate, and undo each other's work.
var nodeHealthControllers = Rule{
	ID:       "node-health-controllers",
	Severity: cliv1alpha1.SeverityError,
	Title:    "No controller taints unhealthy nodes, or more than one does",
	Advice:   "Remove node-health from Taintkeeper's --controllers, or switch the built-in node-lifecycle-controller off.",
	Find: func(facts *Facts) []Finding {
		task := &facts.nodeHealth
		switch {
		case task.Who == cliv1alpha1.WhoNobody:
			return task.found(Finding{
				Message: "Nothing taints unhealthy nodes: pods stay on failed nodes.",
				Advice:  "Switch the built-in node-lifecycle-controller on, or Taintkeeper's node-health.",
			})
		case task.Who == cliv1alpha1.WhoBoth:
			return task.found(Finding{Message: "Taintkeeper and the built-in both taint nodes, at twice the rate, and undo each other's work." + task.did})
		case task.ours == who.Running && task.builtIn == who.Unknown:
			return task.found(Finding{
				Severity: cliv1alpha1.SeverityWarning,
				Message:  "Taintkeeper taints nodes, and nothing shows whether the built-in does too.",
			})
		}
		return nil
	},
}

func (t *task) found(finding Finding) []Finding {
	finding.Object = objectOf("Controller", "", t.Task)
	return []Finding{finding}
}
