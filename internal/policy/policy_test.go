// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

type spec = v1alpha1.EvictionPolicySpec

func seconds(n float64) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n * float64(time.Second))}
}

// due is when pods of these tests are due.
var due = time.Date(2026, time.November, 25, 12, 0, 0, 0, time.UTC)

// at is the instant n seconds after due.
func at(n float64) time.Time { return due.Add(seconds(n).Duration) }

// atMost is a breaker without settle.
func atMost(maxDue string) *v1alpha1.EvictionBreaker {
	return &v1alpha1.EvictionBreaker{MaxDue: intstr.Parse(maxDue), Settle: seconds(0)}
}

// named compiles a policy that has no flaw.
func named(t *testing.T, name string, spec spec) *policy.Policy {
	t.Helper()
	p, err := policy.New(&v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func requires(key string, operator metav1.LabelSelectorOperator, values ...v1alpha1.LabelValue) *v1alpha1.Selector {
	return &v1alpha1.Selector{MatchExpressions: []v1alpha1.SelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

// TestAPolicyHasTheDefaultsOfTheCRD is about objects that no API server has seen.
func TestAPolicyHasTheDefaultsOfTheCRD(t *testing.T) {
	p := named(t, "plain", spec{
		Action:  v1alpha1.ActionEvict,
		Pace:    &v1alpha1.EvictionPace{Pods: 5, Per: *seconds(60)},
		Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(7)},
	})
	if p.Name != "plain" || p.IfDown != v1alpha1.IfDownEvict || p.DryRun || !p.Asks() {
		t.Errorf("compiled to %+v", p)
	}
	if got, want := *p.Pace(), (policy.Pace{Pods: 5, Per: time.Minute, Scope: v1alpha1.ScopeCluster}); got != want {
		t.Errorf("pace %+v, want %+v", got, want)
	}
	if got := p.Breaker(); got.Settle != time.Minute || got.MaxDue(100) != 7 {
		t.Errorf("breaker %+v, want a settle of 1m and a maxDue of 7", got)
	}
	if p := named(t, "p", spec{Action: v1alpha1.ActionHold}); p.Pace() != nil || p.Breaker() != nil || p.Asks() {
		t.Errorf("without a pace and a breaker it is compiled to %+v", p)
	}
}

func TestAPolicyIsCompiledAsItIsWritten(t *testing.T) {
	p := named(t, "p", spec{
		Action: v1alpha1.ActionDelete, IfDown: v1alpha1.IfDownHold, DryRun: true,
		Pace:    &v1alpha1.EvictionPace{Pods: 2, Per: *seconds(1), Scope: v1alpha1.ScopeZone},
		Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(1), Settle: seconds(3)},
	})
	if p.IfDown != v1alpha1.IfDownHold || !p.DryRun || p.Pace().Scope != v1alpha1.ScopeZone || p.Breaker().Settle != 3*time.Second {
		t.Errorf("compiled to %+v, pace %+v, breaker %+v", p, p.Pace(), p.Breaker())
	}
}

func TestMaxDueIsRoundedDownAndAtLeastOne(t *testing.T) {
	for _, tt := range []struct {
		maxDue         string
		selected, want int
	}{
		{"3", 0, 3}, {"3", 1000, 3},
		{"10%", 100, 10}, {"10%", 109, 10}, {"10%", 110, 11}, {"10%", 19, 1}, {"10%", 9, 1}, {"10%", 0, 1},
		{"100%", 5, 5}, {"1%", 199, 1}, {"1%", 200, 2},
		{"0", 50, 1}, {"-4", 50, 1}, {"0%", 50, 1}, // refused by the API server
	} {
		p := named(t, "p", spec{Action: v1alpha1.ActionDelete, Breaker: atMost(tt.maxDue)})
		if got := p.Breaker().MaxDue(tt.selected); got != tt.want {
			t.Errorf("%s of %d is %d, want %d", tt.maxDue, tt.selected, got, tt.want)
		}
	}
}

func TestABrokenPolicyHoldsTooMuchRatherThanTooLittle(t *testing.T) {
	broken := requires("app", "in", "db")
	matching := &policy.Pod{Labels: labels.Set{"app": "db"}, NamespaceLabels: labels.Set{}, NodeLabels: labels.Set{}}
	other := &policy.Pod{Labels: labels.Set{"app": "web"}, NamespaceLabels: labels.Set{}, NodeLabels: labels.Set{}}
	for name, tt := range map[string]struct {
		spec    spec
		says    []string
		selects bool // the other pod, too
		want    policy.Why
	}{
		"a selector of pods that cannot be read": {spec{Action: v1alpha1.ActionHold, PodSelector: broken}, []string{"podSelector"}, true, policy.Held},
		"one of nodes, and the one of pods still says something": {
			spec{Action: v1alpha1.ActionHold, NodeSelector: broken, PodSelector: requires("app", "In", "db")}, []string{"nodeSelector"}, false, policy.Held,
		},
		"one of namespaces": {spec{Action: v1alpha1.ActionHold, NamespaceSelector: broken}, []string{"namespaceSelector"}, true, policy.Held},
		"two at once":       {spec{Action: v1alpha1.ActionHold, NamespaceSelector: broken, NodeSelector: broken}, []string{"namespaceSelector", "nodeSelector"}, true, policy.Held},
		"an action that is not known": {
			spec{Action: "Request", Deadline: seconds(60)}, []string{`action: "Request" is not Delete, Evict or Hold`}, true, policy.Held,
		},
		"no action":                       {spec{}, []string{"action"}, true, policy.Held},
		"a maxDue that cannot be read":    {spec{Action: v1alpha1.ActionDelete, Breaker: atMost("many")}, []string{"breaker.maxDue"}, true, policy.BreakerOpen},
		"a selector and a maxDue at once": {spec{Action: v1alpha1.ActionDelete, PodSelector: broken, Breaker: atMost("many")}, []string{"podSelector", "breaker.maxDue"}, true, policy.BreakerOpen},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := policy.New(&v1alpha1.EvictionPolicy{Spec: tt.spec})
			if err == nil {
				t.Fatal("it is compiled without an error")
			}
			for _, says := range tt.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("the error is %q, want one that says %q", err, says)
				}
			}
			if a, b := p.Mismatch(matching), p.Mismatch(other); a != "" || (b == "") != tt.selects {
				t.Errorf("mismatch of a pod that matches: %q, of another: %q; want that to be selected: %t", a, b, tt.selects)
			}
			var latch policy.Latch
			if p.Breaker() != nil {
				latch.Count(p.Breaker(), 2, 1000, due)
			}
			if got := p.Says(matching, policy.Cause{Due: due}, due, policy.State{Open: latch.Open()}); got.Why != tt.want {
				t.Errorf("says %+v, want %s", got, tt.want)
			}
		})
	}
}

func TestAStatusSaysWhetherABreakerHasTripped(t *testing.T) {
	for status, want := range map[metav1.ConditionStatus]time.Time{metav1.ConditionTrue: at(5), metav1.ConditionFalse: {}} {
		object := &v1alpha1.EvictionPolicy{Spec: spec{Action: v1alpha1.ActionDelete, Breaker: atMost("1")}}
		object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionTripped, Status: status, LastTransitionTime: metav1.NewTime(at(5))}}
		compiled, err := policy.New(object)
		if err != nil || !compiled.Tripped.Equal(want) {
			t.Errorf("if the condition is %s, it has tripped at %s, want %s (%v)", status, compiled.Tripped, want, err)
		}
	}
}
