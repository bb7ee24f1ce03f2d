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

	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Pod is what the policies need to know about a pod, its namespace and its node.
type Pod struct {
	// Labels of the pod, its namespace and its node. They are nil if they are not known.
	Labels, NamespaceLabels, NodeLabels labels.Labels
	// NamespaceEnds is set if the namespace is being deleted.
	NamespaceEnds bool
	// Finished is set if the pod has succeeded or failed.
	Finished bool
	// Unready is set if the pod or its node has not been Ready for [UnreadyFor]. Since is from when; zero means always.
	Unready bool
	Since   time.Time
	// Turns is when the pod will count as unready if nothing changes; zero if it will not, or does already.
	Turns time.Time
	// Budgets is what is known about the pod's PodDisruptionBudgets.
	Budgets Budgets
}

// NotReadySince sets since when the pod or its node has not been ready; zero if both are.
func (p *Pod) NotReadySince(since, now time.Time) {
	switch at := since.Add(UnreadyFor); {
	case since.IsZero():
	case at.After(now):
		p.Turns = at
	default:
		p.Unready, p.Since = true, at
	}
}

// UnreadyFor is how long a pod or its node must not have been Ready before the pod counts as unready, so that one
// failed readiness probe or one NotReady heartbeat does not cost a pod the protection of its budget.
const UnreadyFor = 30 * time.Second

// Budgets is what is known about the PodDisruptionBudgets of a pod. With the zero value, the Eviction API may be asked,
// and evicts the pod without charging a budget.
type Budgets struct {
	// Objects is Budget, BudgetBusy, BudgetsUnread, PodUnread, SeveralBudgets or NotPermitted if asking now is useless,
	// and empty otherwise.
	Objects Why
	// Name is the name of the pod's budget, or the names if it has several.
	Name string
}

// BudgetsNamed returns what is known about the budgets of a pod that has the PodDisruptionBudgets of these names. The
// Eviction API answers 500 for a pod with several, whatever they allow
// (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go).
func BudgetsNamed(names ...string) Budgets {
	is := Budgets{Name: strings.Join(slices.Sorted(slices.Values(names)), ", ")}
	if len(names) > 1 {
		is.Objects = SeveralBudgets
	}
	return is
}

// IgnoresBudgets reports whether the Eviction API evicts a pod in a phase whatever its budgets say (canIgnorePDB in
// k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go).
func IgnoresBudgets(phase corev1.PodPhase) bool {
	return phase == corev1.PodPending || phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// SparesUnready reports whether the Eviction API evicts pods of a budget that are not ready without charging it. They
// do not count toward the healthy pods of the budget, so their eviction disrupts nothing.
func SparesUnready(budget *policyv1.PodDisruptionBudget) bool {
	always := budget.Spec.UnhealthyPodEvictionPolicy
	return always != nil && *always == policyv1.AlwaysAllow ||
		budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy
}

// Allowed returns how many disruptions a budget allows now: none while its status lags behind its spec, because the
// Eviction API then refuses every pod.
func Allowed(budget *policyv1.PodDisruptionBudget) int {
	if budget.Status.ObservedGeneration < budget.Generation {
		return 0
	}
	return int(budget.Status.DisruptionsAllowed)
}

// Cause is a taint because of which a pod must leave, and when the pod is due because of it.
type Cause struct {
	Taint *corev1.Taint
	Due   time.Time
	// Seen is when this process first saw that the pod is due because of the taint; zero means at Due. Breakers do not
	// rely on Due, which follows from records that many clients may write.
	Seen time.Time
	// Halt is what is known of halts that kept the pod because of the taint.
	Halt Halt
}

// seen returns the later of due and first seen as due.
func (c Cause) seen() time.Time {
	return instant.Later(c.Due, c.Seen)
}

// CausesOf returns the taints of a node because of which a pod must leave according to a rule, now or later. They point
// into the taints.
func CausesOf(rule verdict.Rule, pod verdict.Pod, taints []verdict.Taint) (causes []Cause) {
	for i := range taints {
		if r := rule.Judge(pod, taints[i]); r.Leaves {
			causes = append(causes, Cause{Taint: &taints[i].Taint, Due: r.Due})
		}
	}
	return causes
}
