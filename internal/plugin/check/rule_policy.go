// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// policySelectsNothing: someone relies on a policy whose selectors have a typo.
var policySelectsNothing = Rule{
	ID:       "policy-selects-nothing",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy selects no pods",
	Advice:   "Correct the selectors, or delete the policy.",
	Find: func(facts *Facts) []Finding {
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			return s.finding("Its selectors match no pods, so it holds nothing."), len(facts.Pods) > 0 && len(s.pods) == 0
		})
	},
}

// policyHoldsWithoutEnd: a pause has a reason and is ended by someone, and a breaker counts. A bare Hold is forgotten.
var policyHoldsWithoutEnd = Rule{
	ID:       "policy-holds-without-end",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy holds pods and never lets them go",
	Advice:   "Give the policy a deadline, or give a reason in paused.",
	Find: func(facts *Facts) []Finding {
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			endless := s.Spec.Action == v1alpha1.ActionHold &&
				s.Spec.Deadline == nil && s.Spec.Paused == nil && s.Spec.Breaker == nil &&
				(len(s.pods) > 0 || len(facts.Pods) == 0) // otherwise policySelectsNothing reports it
			return s.finding("Its action is Hold, and it sets no deadline, breaker or reason in paused: " +
				"pods stay on tainted nodes until someone deletes the policy."), endless
		})
	},
}

// policyUnknownKey: a policy with a misspelled key applies to no taint.
var policyUnknownKey = Rule{
	ID:       "policy-unknown-key",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy names an unknown taint key",
	Advice:   "Correct the key, unless you plan a taint with this key.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		onNodes := facts.keys()
		for i := range facts.policies {
			s := &facts.policies[i]
			for j, taint := range s.Spec.Taints {
				finding := facts.judgeKey(fmt.Sprintf("spec.taints[%d]", j), taint.Key, onNodes)
				if finding.Message != "" {
					finding.Object = s.finding("").Object
					all = append(all, finding)
				}
			}
		}
		return all
	},
}

// policyDown: the built-in controller does not know policies. Only an admission policy can stop it.
var policyDown = Rule{
	ID:       "policy-if-down",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy's ifDown: Hold has no effect",
	Advice:   "Install ValidatingAdmissionPolicy taintkeeper-held with the chart (mode=enforce, coexist.enabled=true), or set ifDown to Evict.",
	Find: func(facts *Facts) []Finding {
		if !facts.Signs.HoldersKnown || len(facts.Signs.Holders) > 0 || facts.eviction.builtIn == who.NotRunning {
			return nil
		}
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			return s.finding("It has ifDown: Hold, but no ValidatingAdmissionPolicy takes EvictionPolicies as its parameters: " +
				"while Taintkeeper is not running, the built-in controller evicts the selected pods when they are due."), s.Spec.IfDown == v1alpha1.IfDownHold
		})
	},
}
