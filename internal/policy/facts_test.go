// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

func TestLabelsThatAreNotKnownAreSelected(t *testing.T) {
	one := &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}}
	p := named(t, "p", spec{Action: v1alpha1.ActionHold, NamespaceSelector: one, PodSelector: one, NodeSelector: one})
	match, other := labels.Set{"a": "b"}, labels.Set{}
	for want, pod := range map[string]policy.Pod{
		"":                  {},
		"namespaceSelector": {NamespaceLabels: other, Labels: other, NodeLabels: other},
		"podSelector":       {NamespaceLabels: match, Labels: other},
		"nodeSelector":      {Labels: match, NodeLabels: other},
	} {
		if got := p.Mismatch(&pod); got != want {
			t.Errorf("the selector that does not match is %q, want %q", got, want)
		}
	}
}

func TestSeveralBudgetsObject(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  policy.Budgets
	}{
		{nil, policy.Budgets{}},
		{[]string{"shop/web"}, policy.Budgets{Name: "shop/web"}},
		{[]string{"shop/web", "shop/all"}, policy.Budgets{Name: "shop/all, shop/web", Objects: policy.SeveralBudgets}},
	} {
		if got := policy.BudgetsNamed(tt.names...); got != tt.want {
			t.Errorf("budgets %v are %+v, want %+v", tt.names, got, tt.want)
		}
	}
}

func TestABudgetAllowsNothingWhileItsStatusLags(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{}
	budget.Generation, budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed = 2, 2, 3
	if got := policy.Allowed(budget); got != 3 {
		t.Errorf("it allows %d, want 3", got)
	}
	if budget.Generation = 3; policy.Allowed(budget) != 0 {
		t.Errorf("it allows %d while its status lags, want 0", policy.Allowed(budget))
	}
}

func TestCausesAreTheTaintsThatAPodDoesNotTolerateForGood(t *testing.T) {
	since := verdict.SeenAt(due)
	on := verdict.Advance(nil, []corev1.Taint{
		{Key: "a", Effect: corev1.TaintEffectNoExecute}, {Key: "b", Effect: corev1.TaintEffectNoExecute},
		{Key: "c", Effect: corev1.TaintEffectNoExecute},
	}, since)
	minute := int64(60)
	pod := verdict.Pod{Bound: due.Add(-time.Hour), Tolerations: []corev1.Toleration{
		{Key: "b", Operator: corev1.TolerationOpExists},
		{Key: "c", Operator: corev1.TolerationOpExists, TolerationSeconds: &minute},
	}}
	causes := policy.CausesOf(verdict.Rule{}, pod, on)
	if len(causes) != 2 || causes[0].Taint.Key != "a" || !causes[0].Due.Equal(due) ||
		causes[1].Taint.Key != "c" || !causes[1].Due.Equal(at(60)) {
		t.Errorf("causes %+v, want a at once and c in a minute", causes)
	}
}
