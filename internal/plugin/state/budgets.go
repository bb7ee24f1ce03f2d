// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
)

// Covering is a PodDisruptionBudget with its parsed selector.
type Covering struct {
	*policyv1.PodDisruptionBudget

	selector labels.Selector
}

// Coverage is the PodDisruptionBudgets of each namespace.
type Coverage map[string][]Covering

// CoverageOf parses the selectors. A budget with an invalid selector covers nothing, as in the disruption controller.
func CoverageOf(all []*policyv1.PodDisruptionBudget) Coverage {
	byNamespace := Coverage{}
	for _, budget := range all {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil {
			byNamespace[budget.Namespace] = append(byNamespace[budget.Namespace], Covering{budget, selector})
		}
	}
	return byNamespace
}

// Of returns the budgets that cover a pod with these labels.
func (c Coverage) Of(namespace string, pod labels.Set) []Covering {
	var all []Covering
	for _, budget := range c[namespace] {
		if budget.selector.Matches(pod) {
			all = append(all, budget)
		}
	}
	return all
}

// PoliciesOf returns the policies of a cluster, or nil if it has none.
func (c *Cluster) PoliciesOf() *policies.Set {
	if len(c.Policies) == 0 {
		return nil
	}
	return policies.New(c.Policies, c.Namespaces, c.BudgetsOf())
}

// BudgetsOf returns a function that finds the PodDisruptionBudgets of a pod.
func (c *Cluster) BudgetsOf() policies.BudgetsOf {
	covers := CoverageOf(c.Budgets)
	return func(namespace string, pod labels.Set) (all []*policyv1.PodDisruptionBudget) {
		for _, budget := range covers.Of(namespace, pod) {
			all = append(all, budget.PodDisruptionBudget)
		}
		return all
	}
}
