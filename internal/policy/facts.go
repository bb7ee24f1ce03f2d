// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// Pod is what the policies need to know of a pod, its namespace and its node.
type Pod struct {
	// Labels of the pod, its namespace and its node. They are nil if they are not known.
	Labels, NamespaceLabels, NodeLabels labels.Labels
	// NamespaceEnds is set if the namespace is being deleted.
	NamespaceEnds bool
	// Finished is set if the pod has succeeded or failed.
	Finished bool
	// Unready is set if the pod has not been Ready for [UnreadyFor], or its node is not Ready.
	Unready bool
	// Budgets says what is known of the pod's PodDisruptionBudgets.
	Budgets Budgets
}

// UnreadyFor is how long a pod must not have been Ready until it counts as unready. It keeps a readiness probe that
// failed once from costing a pod its budget's protection.
const UnreadyFor = 30 * time.Second

// Budgets is what is known of the PodDisruptionBudgets of a pod. The zero value lets the Eviction API be asked.
type Budgets struct {
	// Objects is Budget, BudgetBusy, SeveralBudgets or NotPermitted if it is of no use to ask now, and empty otherwise.
	Objects Why
	// Name is of the budget, if the pod has one; names, if it has several.
	Name string
}

// BudgetsNamed returns what is known of a pod that has the PodDisruptionBudgets of these names. The Eviction API
// answers 500 for a pod with several, whatever they allow
// (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go).
func BudgetsNamed(names ...string) Budgets {
	is := Budgets{Name: strings.Join(slices.Sorted(slices.Values(names)), ", ")}
	if len(names) > 1 {
		is.Objects = SeveralBudgets
	}
	return is
}

// Allowed returns how many disruptions a budget allows now: none while its status lags behind its spec, because the
// Eviction API refuses all then.
func Allowed(budget *policyv1.PodDisruptionBudget) int {
	if budget.Status.ObservedGeneration < budget.Generation {
		return 0
	}
	return int(budget.Status.DisruptionsAllowed)
}

// Cause is a taint because of which a pod must leave, and the instant at which it is due because of it.
type Cause struct {
	Taint *corev1.Taint
	Due   time.Time
}

// CausesOf returns the taints of a node because of which a pod must leave by a rule, now or later. They point into the
// taints.
func CausesOf(rule verdict.Rule, pod verdict.Pod, taints []verdict.Taint) (causes []Cause) {
	for i := range taints {
		if r := rule.Judge(pod, taints[i]); r.Leaves {
			causes = append(causes, Cause{Taint: &taints[i].Taint, Due: r.Due})
		}
	}
	return causes
}
