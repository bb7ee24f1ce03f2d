// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"cmp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

var due = time.Date(2026, time.November, 25, 9, 0, 0, 0, time.UTC)

func named(name string, spec v1alpha1.EvictionPolicySpec) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func lasting(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func withReady(pod *corev1.Pod, status corev1.ConditionStatus, since time.Time) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(since)},
	}
	return pod
}

func newPod() *corev1.Pod {
	return withReady(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, corev1.ConditionTrue, due)
}

func newNode(ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func budget(name string, allowed int32, observed int64) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 2},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ObservedGeneration: observed},
	}
}

func TestACourse(t *testing.T) {
	hold := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}
	briefly := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: lasting(time.Minute)}
	ask := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Deadline: lasting(time.Hour)}
	brake := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(1)}}
	slow := named("slow", v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: 1, Per: *lasting(time.Minute)},
	})
	slow.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionHolding, Status: metav1.ConditionTrue, Reason: string(policy.Paced)},
	}
	tripped := named("brake", brake)
	tripped.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionTripped, Status: metav1.ConditionTrue, Message: "9 of 9 selected pods would leave."},
	}
	stop := named("stop", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Paused: new("network")})
	halted := named("halted", ask)
	halted.Status.HaltedUntil = &metav1.Time{Time: due.Add(10 * time.Minute)}
	resumed := tripped.DeepCopy()
	resumed.Spec.Breaker.ResumedAt = &metav1.Time{Time: due.Add(2 * time.Hour)}
	for name, test := range map[string]struct {
		policies []*v1alpha1.EvictionPolicy
		budgets  []*policyv1.PodDisruptionBudget
		pod      *corev1.Pod
		node     corev1.ConditionStatus
		others   []policy.Cause
		now      time.Duration // since due
		first    policy.Why
		last     string
		leaves   time.Duration // since due; negative if never
		asks     bool
		deletes  time.Duration // since due; 0 if no deadline does
	}{
		"a Hold does not end":           {policies: []*v1alpha1.EvictionPolicy{named("h", hold)}, first: policy.Held, last: "h", leaves: -1},
		"a Hold ends at its deadline":   {policies: []*v1alpha1.EvictionPolicy{named("h", briefly)}, first: policy.Held, last: "h", leaves: time.Minute, deletes: time.Minute},
		"after the deadline it is free": {policies: []*v1alpha1.EvictionPolicy{named("h", briefly)}, now: 2 * time.Minute, leaves: 2 * time.Minute},
		"another taint lets it go earlier": {
			policies: []*v1alpha1.EvictionPolicy{named("h", v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionHold, Taints: []v1alpha1.EvictionPolicyTaint{{Key: "k"}},
			})},
			others: []policy.Cause{{Taint: &corev1.Taint{Key: "other"}, Due: due.Add(time.Second)}},
			first:  policy.Held, last: "h", leaves: time.Second,
		},
		"the last to let it go is named": {
			policies: []*v1alpha1.EvictionPolicy{named("h", briefly), named("b", brake)}, first: policy.Held, last: "b", leaves: 2 * time.Minute,
			deletes: 2 * time.Minute,
		},
		"a breaker first sees how many are due": {
			policies: []*v1alpha1.EvictionPolicy{named("b", brake)}, first: policy.Settling, last: "b", leaves: time.Minute,
		},
		"a breaker is open if its status says so": {policies: []*v1alpha1.EvictionPolicy{tripped}, first: policy.BreakerOpen, last: "brake", leaves: -1},
		"a ready pod is asked about":              {policies: []*v1alpha1.EvictionPolicy{named("a", ask)}, asks: true, deletes: time.Hour},
		"until the deadline, which counts from the end of the last halt": {
			policies: []*v1alpha1.EvictionPolicy{halted}, now: time.Hour, leaves: time.Hour, asks: true, deletes: 70 * time.Minute,
		},
		"a pause does not end": {policies: []*v1alpha1.EvictionPolicy{named("a", ask), stop}, first: policy.Paused, last: "stop", leaves: -1},
		"when a breaker is resumed, the deadline counts from then": {
			policies: []*v1alpha1.EvictionPolicy{named("a", ask), resumed}, first: policy.BreakerOpen, last: "brake", leaves: 2 * time.Hour,
			asks: true, deletes: 3 * time.Hour,
		},
		"a budget that allows nothing": {
			policies: []*v1alpha1.EvictionPolicy{named("a", ask)}, budgets: []*policyv1.PodDisruptionBudget{budget("b", 0, 2)},
			first: policy.Budget, last: "a", leaves: time.Hour, deletes: time.Hour,
		},
		"a budget whose status lags": {
			policies: []*v1alpha1.EvictionPolicy{named("a", ask)}, budgets: []*policyv1.PodDisruptionBudget{budget("b", 1, 1)},
			first: policy.Budget, last: "a", leaves: time.Hour, deletes: time.Hour,
		},
		"several budgets": {
			policies: []*v1alpha1.EvictionPolicy{named("a", ask)},
			budgets:  []*policyv1.PodDisruptionBudget{budget("b", 1, 2), budget("c", 1, 2)},
			first:    policy.SeveralBudgets, last: "a", leaves: time.Hour, deletes: time.Hour,
		},
		"a budget does not keep pods of a node that is not ready": {
			policies: []*v1alpha1.EvictionPolicy{named("a", ask)}, budgets: []*policyv1.PodDisruptionBudget{budget("b", 0, 2)},
			node: corev1.ConditionUnknown,
		},
		"a pace without room holds what is due already": {
			policies: []*v1alpha1.EvictionPolicy{slow}, now: time.Second, first: policy.Paced, last: "slow", leaves: -1,
		},
		"and lets what is due now take its turn": {policies: []*v1alpha1.EvictionPolicy{slow}},
		"a budget keeps a pod that is not ready only until it has been so for a while": {
			policies: []*v1alpha1.EvictionPolicy{named("a", ask)}, budgets: []*policyv1.PodDisruptionBudget{budget("b", 0, 2)},
			pod: withReady(newPod(), corev1.ConditionFalse, due.Add(-10*time.Second)), first: policy.Budget, last: "a", leaves: 20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := policies.New(test.policies, nil, func(string, labels.Set) []*policyv1.PodDisruptionBudget { return test.budgets })
			pod := policies.PodOf(cmp.Or(test.pod, newPod()))
			node := policies.NodeOf(newNode(cmp.Or(test.node, corev1.ConditionTrue)))
			causes := append([]policy.Cause{{Taint: &corev1.Taint{Key: "k"}, Due: due}}, test.others...)
			course := set.Course(set.Selecting(pod, node), pod, node, causes, due.Add(test.now))
			leaves := due.Add(test.leaves)
			if test.leaves < 0 {
				leaves = time.Time{}
			}
			if course.First.Why != test.first || course.Last.Policy != test.last || !course.Leaves.Equal(leaves) || course.Asks != test.asks {
				t.Errorf("the course is %+v, want it to begin with %q, to leave at %v after %q, and to ask: %v", course, test.first, leaves, test.last, test.asks)
			}
			deletes := time.Time{}
			if test.deletes != 0 {
				deletes = due.Add(test.deletes)
			}
			if !course.Deletes.Equal(deletes) {
				t.Errorf("a deadline deletes it at %v, want %v", course.Deletes, deletes)
			}
		})
	}
}

func TestANamespaceThatIsNotKnownIsSelected(t *testing.T) {
	selector := &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"team": "a"}}
	object := named("p", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, NamespaceSelector: selector})
	other := []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "b"}}}}
	if got := policies.New([]*v1alpha1.EvictionPolicy{object}, nil, nil); len(got.Selecting(policies.PodOf(newPod()), policies.NodeOf(newNode("True")))) != 1 {
		t.Error("a namespace that is not known is not selected")
	}
	set := policies.New([]*v1alpha1.EvictionPolicy{object}, other, nil)
	if why := set.Mismatch(set.All[0], policies.PodOf(newPod()), policies.NodeOf(newNode("True"))); why != "namespaceSelector" {
		t.Errorf("the selector that does not match is %q", why)
	}
}

func TestAfterHaltsDeadlinesCountFromTheResume(t *testing.T) {
	stop := named("stop", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: lasting(time.Minute), Paused: new("network")})
	pause := named("pause", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Paused: new("network")})
	pause.Labels = map[string]string{policies.MadeLabel: policies.MadeBy}
	ask := named("ask", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Deadline: lasting(15 * time.Minute)})
	allowsOne := func(string, labels.Set) []*policyv1.PodDisruptionBudget {
		return []*policyv1.PodDisruptionBudget{budget("b", 1, 2)}
	}
	at := due.Add(time.Hour)
	for name, test := range map[string]struct {
		policies []*v1alpha1.EvictionPolicy
		want     policies.Release
		says     string
	}{
		"a pause that is deleted": {
			[]*v1alpha1.EvictionPolicy{ask, pause}, policies.Release{Leave: 1, Asked: 1, Late: 1, First: 15 * time.Minute, Last: 15 * time.Minute},
			" The Eviction API is asked first. 1 is deleted without asking if still there 15m later.",
		},
		"a policy that goes on without its pause": {
			[]*v1alpha1.EvictionPolicy{stop}, policies.Release{Late: 1, First: time.Minute, Last: time.Minute},
			" 1 is deleted without asking if still there 1m later.",
		},
		"nothing but a pause": {[]*v1alpha1.EvictionPolicy{pause}, policies.Release{Leave: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := policies.New(test.policies, nil, allowsOne)
			c := policies.Candidate{
				Pod: policies.PodOf(newPod()), Node: policies.NodeOf(newNode(corev1.ConditionTrue)),
				Causes: []policy.Cause{{Taint: &corev1.Taint{Key: "k"}, Due: due}},
			}
			c.By = set.Selecting(c.Pod, c.Node)
			if course := set.Course(c.By, c.Pod, c.Node, c.Causes, at); !course.Halted() {
				t.Errorf("the course is %+v, want that the pod is halted", course)
			}
			var got policies.Release
			got.Add(set.AfterHalts(set.Resumed(), c, at), at)
			if got != test.want || got.Deadlines() != test.says {
				t.Errorf("after a resume: %+v, %q, want %+v, %q", got, got.Deadlines(), test.want, test.says)
			}
		})
	}
}
