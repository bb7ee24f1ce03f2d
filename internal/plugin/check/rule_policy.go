// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// policySelectsNothing: somebody relies on a policy whose selectors have a typo.
var policySelectsNothing = Rule{
	ID:       "policy-selects-nothing",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy selects no pod",
	Advice:   "Correct the selectors, or delete the policy.",
	Find: func(facts *Facts) []Finding {
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			return s.finding("Its selectors match no pod, so it holds nothing."), len(facts.Pods) > 0 && len(s.pods) == 0
		})
	},
}

// policyHoldsWithoutEnd: a pause has a reason and somebody who ends it, a breaker counts. A bare Hold is forgotten.
var policyHoldsWithoutEnd = Rule{
	ID:       "policy-holds-without-end",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy holds pods and never lets them go",
	Advice:   "Give the policy a deadline, or say in paused why nobody may leave.",
	Find: func(facts *Facts) []Finding {
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			endless := s.Spec.Action == v1alpha1.ActionHold &&
				s.Spec.Deadline == nil && s.Spec.Paused == nil && s.Spec.Breaker == nil &&
				(len(s.pods) > 0 || len(facts.Pods) == 0) // else policySelectsNothing says it
			return s.finding("Its action is Hold, without deadline, paused or breaker: " +
				"pods stay on tainted nodes until somebody deletes the policy."), endless
		})
	},
}

// policyUnknownKey: a policy applies to no taint whose key it misspells.
var policyUnknownKey = Rule{
	ID:       "policy-unknown-key",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy names the key of a taint that nobody uses",
	Advice:   "Correct the key, unless a taint with this key is to come.",
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

// policyDown: the built-in controller knows no policies. Only an admission policy can stop it.
var policyDown = Rule{
	ID:       "policy-if-down",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "ifDown: Hold of an EvictionPolicy has no effect",
	Advice:   "Install ValidatingAdmissionPolicy taintkeeper-held with the chart (mode=enforce, coexist.enabled=true), or set ifDown to Evict.",
	Find: func(facts *Facts) []Finding {
		if !facts.Signs.HoldersKnown || len(facts.Signs.Holders) > 0 || facts.eviction.builtIn == off {
			return nil
		}
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			return s.finding("It has ifDown: Hold, but no ValidatingAdmissionPolicy takes EvictionPolicies as its parameters: " +
				"while Taintkeeper is not running, the built-in controller evicts these pods."), s.Spec.IfDown == v1alpha1.IfDownHold
		})
	},
}
