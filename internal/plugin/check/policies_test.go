// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// evicting returns a cluster with a policy that evicts two pods of app web on node n in zone a, with budgets.
func evicting(change func(*v1alpha1.EvictionPolicySpec), budgets ...*policyv1.PodDisruptionBudget) *state.Cluster {
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Spec:       v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict},
	}
	if change != nil {
		change(&policy.Spec)
	}
	n := node("n")
	n.Labels = map[string]string{"zone": "a"}
	return &state.Cluster{
		Nodes: []*corev1.Node{n}, Pods: []*corev1.Pod{pod("p"), pod("q")}, Budgets: budgets,
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "shop"}}}},
		Policies:   []*v1alpha1.EvictionPolicy{policy},
	}
}

// withLabel selects by a label.
func withLabel(key string, value v1alpha1.LabelValue) *v1alpha1.Selector {
	return &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{key: value}}
}

func TestAPolicyThatSelectsNothingIsFound(t *testing.T) {
	type spec = v1alpha1.EvictionPolicySpec
	for name, test := range map[string]struct {
		change func(*spec)
		want   is
	}{
		"everything":         {nil, nothing},
		"labels of pods":     {func(s *spec) { s.PodSelector = withLabel("app", "web") }, nothing},
		"a typo":             {func(s *spec) { s.PodSelector = withLabel("app", "wbe") }, warningThat("match no pod")},
		"a namespace":        {func(s *spec) { s.NamespaceSelector = withLabel("team", "shop") }, nothing},
		"no namespace":       {func(s *spec) { s.NamespaceSelector = withLabel("team", "ml") }, warningThat("match no pod")},
		"a node":             {func(s *spec) { s.NodeSelector = withLabel("zone", "a") }, nothing},
		"no node":            {func(s *spec) { s.NodeSelector = withLabel("zone", "b") }, warningThat("match no pod")},
		"a dry run is a try": {func(s *spec) { s.PodSelector, s.DryRun = withLabel("app", "wbe"), true }, nothing},
	} {
		t.Run(name, func(t *testing.T) { test.want.compare(t, found(t, "policy-selects-nothing", evicting(test.change))) })
	}
	unread := evicting(func(s *spec) { s.NamespaceSelector = withLabel("team", "ml") })
	unread.Namespaces = nil
	nothing.compare(t, found(t, "policy-selects-nothing", unread))
	manifests := evicting(func(s *spec) { s.PodSelector = withLabel("app", "wbe") })
	manifests.Pods = nil
	nothing.compare(t, found(t, "policy-selects-nothing", manifests))
}

func TestAHoldWithoutEndIsFound(t *testing.T) {
	type spec = v1alpha1.EvictionPolicySpec
	for name, test := range map[string]struct {
		change func(*spec)
		want   is
	}{
		"Evict":             {func(*spec) {}, nothing},
		"Hold":              {func(s *spec) { s.Action = v1alpha1.ActionHold }, warningThat("until someone deletes the policy")},
		"Hold and deadline": {func(s *spec) { s.Action, s.Deadline = v1alpha1.ActionHold, &metav1.Duration{Duration: time.Hour} }, nothing},
		"Hold and paused":   {func(s *spec) { s.Action, s.Paused = v1alpha1.ActionHold, new("why") }, nothing},
		"Hold and breaker":  {func(s *spec) { s.Action, s.Breaker = v1alpha1.ActionHold, &v1alpha1.EvictionBreaker{} }, nothing},
		"Hold as a dry run": {func(s *spec) { s.Action, s.DryRun = v1alpha1.ActionHold, true }, nothing},
	} {
		t.Run(name, func(t *testing.T) { test.want.compare(t, found(t, "policy-holds-without-end", evicting(test.change))) })
	}
}

// budgetThat returns a budget for the pods of app web, changed as given.
func budgetThat(name string, change func(*policyv1.PodDisruptionBudgetSpec)) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	change(&budget.Spec)
	return budget
}

func maxUnavailable(value intstr.IntOrString) *policyv1.PodDisruptionBudget {
	return budgetThat("b", func(spec *policyv1.PodDisruptionBudgetSpec) { spec.MaxUnavailable = &value })
}

func minAvailable(value intstr.IntOrString) *policyv1.PodDisruptionBudget {
	return budgetThat("b", func(spec *policyv1.PodDisruptionBudgetSpec) { spec.MinAvailable = &value })
}

func TestABudgetThatCanNeverAllowIsFound(t *testing.T) {
	type spec = v1alpha1.EvictionPolicySpec
	number, percent := intstr.FromInt32, intstr.FromString
	never := warningThat("stay as long as they are ready: 2 pods, PodDisruptionBudget default/b.")
	// The third replica does not exist yet, but the disruption controller expects it.
	expectsThree := minAvailable(number(2))
	expectsThree.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 3}
	elsewhere := maxUnavailable(number(0))
	elsewhere.Namespace = "other"
	for name, test := range map[string]struct {
		change func(*spec)
		budget *policyv1.PodDisruptionBudget
		want   is
	}{
		"maxUnavailable 0":           {nil, maxUnavailable(number(0)), never},
		"maxUnavailable 0%":          {nil, maxUnavailable(percent("0%")), never},
		"maxUnavailable 1":           {nil, maxUnavailable(number(1)), nothing},
		"maxUnavailable 1%, rounded": {nil, maxUnavailable(percent("1%")), nothing},
		"minAvailable of all":        {nil, minAvailable(number(2)), never},
		"minAvailable of more":       {nil, minAvailable(number(3)), never},
		"minAvailable of fewer":      {nil, minAvailable(number(1)), nothing},
		"minAvailable of expected":   {nil, expectsThree, nothing},
		"minAvailable 51%, rounded":  {nil, minAvailable(percent("51%")), never},
		"minAvailable 50%":           {nil, minAvailable(percent("50%")), nothing},
		"another namespace":          {nil, elsewhere, nothing},
		"a deadline":                 {func(s *spec) { s.Deadline = &metav1.Duration{Duration: time.Hour} }, maxUnavailable(number(0)), nothing},
		"Delete asks nobody":         {func(s *spec) { s.Action = v1alpha1.ActionDelete }, maxUnavailable(number(0)), nothing},
		"pods that are not selected": {func(s *spec) { s.PodSelector = withLabel("app", "db") }, maxUnavailable(number(0)), nothing},
		"unready pods too":           {func(s *spec) { s.Unready = v1alpha1.UnreadyAsk }, maxUnavailable(number(0)), warningThat("until someone deletes them")},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "policy-blocked-budget", evicting(test.change, test.budget)))
		})
	}
}

func TestIfDownWithoutItsAdmissionPolicyIsFound(t *testing.T) {
	hold := func(s *v1alpha1.EvictionPolicySpec) { s.IfDown = v1alpha1.IfDownHold }
	const rule = "policy-if-down"
	unread := evicting(hold)
	nothing.compare(t, found(t, rule, unread))
	missing := evicting(hold)
	missing.Signs.HoldersKnown = true
	warningThat("no ValidatingAdmissionPolicy").compare(t, found(t, rule, missing))
	there := evicting(hold)
	there.Signs.HoldersKnown = true
	there.Signs.AddHolder(&admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "taintkeeper-held"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			ParamKind: &admissionv1.ParamKind{APIVersion: "taintkeeper.dev/v1alpha1", Kind: "EvictionPolicy"},
		},
	})
	nothing.compare(t, found(t, rule, there))
	evicts := evicting(nil)
	evicts.Signs.HoldersKnown = true
	nothing.compare(t, found(t, rule, evicts))
}
