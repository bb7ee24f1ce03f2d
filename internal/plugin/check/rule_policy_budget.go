// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// policyBlockedBudget: the Eviction API never evicts such pods, and nothing else ends the wait.
var policyBlockedBudget = Rule{
	ID:       "policy-blocked-budget",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy waits for a PodDisruptionBudget that can never allow an eviction",
	Advice:   "Give the policy a deadline, or let the PodDisruptionBudget allow a disruption.",
	Find: func(facts *Facts) []Finding {
		const why = "It has no deadline, so pods whose PodDisruptionBudget can never allow an eviction"
		return facts.askedInVain(why, func(s *selection, budgets []*covering) bool {
			return s.Spec.Deadline == nil && len(budgets) == 1 && budgets[0].never()
		})
	},
}

// policySeveralBudgets: the Eviction API returns 500 for such pods, whatever the budgets allow.
var policySeveralBudgets = Rule{
	ID:       "policy-several-budgets",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy uses the Eviction API for pods with several PodDisruptionBudgets, which the API refuses",
	Advice:   "Change the selectors of the PodDisruptionBudgets so that each pod has one.",
	Find: func(facts *Facts) []Finding {
		const why = "The Eviction API refuses pods that have several PodDisruptionBudgets, so they"
		return facts.askedInVain(why, func(_ *selection, budgets []*covering) bool { return len(budgets) > 1 })
	},
}

// askedInVain reports a finding for each policy that asks the Eviction API about pods that it never evicts, according
// to their budgets.
func (f *Facts) askedInVain(why string, vain func(*selection, []*covering) bool) []Finding {
	covers := coveringOf(f.Cluster)
	return f.perPolicy(func(s *selection) (Finding, bool) {
		var pods []string
		var budgets []*covering
		for _, one := range s.asked(covers) {
			if vain(s, one.budgets) {
				pods = append(pods, one.name)
				budgets = append(budgets, one.budgets...)
			}
		}
		finding := s.finding(fmt.Sprintf("%s stay %s: %s, %s.",
			why, s.stay(), sentence.Counted(len(pods), "pod"), budgetNames(budgets)))
		finding.Names = pods
		return finding, len(pods) > 0
	})
}

// covering is a PodDisruptionBudget and the number of pods that it covers.
type covering struct {
	*policyv1.PodDisruptionBudget

	selector labels.Selector
	pods     int
}

// coveringOf returns the budgets of each namespace that have valid selectors.
func coveringOf(cluster *state.Cluster) map[string][]*covering {
	all := map[string][]*covering{}
	for _, budget := range cluster.Budgets {
		if selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector); err == nil {
			all[budget.Namespace] = append(all[budget.Namespace], &covering{PodDisruptionBudget: budget, selector: selector})
		}
	}
	for _, pod := range cluster.Pods {
		for _, budget := range budgetsOf(all, pod) {
			budget.pods++
		}
	}
	return all
}

// budgetsOf returns the budgets that cover a pod. A finished pod leaves without asking them.
func budgetsOf(all map[string][]*covering, pod *corev1.Pod) []*covering {
	var covers []*covering
	for _, budget := range all[pod.Namespace] {
		if !state.IsOver(pod) && budget.selector.Matches(labels.Set(pod.Labels)) {
			covers = append(covers, budget)
		}
	}
	return covers
}

// never reports whether the budget allows no disruption even when all its pods are ready.
func (b *covering) never() bool {
	expected := b.pods
	if b.Status.ObservedGeneration > 0 {
		expected = int(b.Status.ExpectedPods)
	}
	scaled := func(of *intstr.IntOrString, other int) int {
		if of == nil {
			return other
		}
		value, err := intstr.GetScaledValueFromIntOrPercent(of, expected, true)
		if err != nil {
			return other
		}
		return value
	}
	return scaled(b.Spec.MaxUnavailable, 1) == 0 || expected > 0 && scaled(b.Spec.MinAvailable, 0) >= expected
}

// asked is a pod about which the Eviction API is asked, and its budgets.
type asked struct {
	name    string
	budgets []*covering
}

// asked returns the pods about which the policy asks the Eviction API.
func (s *selection) asked(covers map[string][]*covering) []asked {
	if s.Spec.Action != v1alpha1.ActionEvict {
		return nil
	}
	var all []asked
	for _, pod := range s.pods {
		all = append(all, asked{pod.Namespace + "/" + pod.Name, budgetsOf(covers, pod)})
	}
	return all
}

// stay says how long pods that the Eviction API never evicts stay on their nodes.
func (s *selection) stay() string {
	switch {
	case s.Spec.Deadline != nil:
		return "until the deadline"
	case s.Spec.Unready == v1alpha1.UnreadyAsk:
		return "until someone deletes them"
	}
	return "as long as they are ready"
}

// budgetNames lists the names of budgets, each once.
func budgetNames(budgets []*covering) string {
	var all []string
	said := map[*covering]bool{}
	for _, budget := range budgets {
		if !said[budget] {
			said[budget] = true
			all = append(all, budget.Namespace+"/"+budget.Name)
		}
	}
	if len(all) == 1 {
		return "PodDisruptionBudget " + all[0]
	}
	return "PodDisruptionBudgets " + sentence.Enumerate(all)
}
