// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const (
	// tolerance is how late something may be on a machine that is busy with other things.
	tolerance = 8 * time.Second
	// held is for how long pods are watched that must stay.
	held = 30 * time.Second
)

func within(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func labelled(app string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
}

func TestHold(t *testing.T) {
	s := newScene(t)
	node, other := s.node("tainted"), s.node("other")
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})
	pod, spared := s.pod("pod", node), s.pod("spared", other)
	s.taint(node)
	s.taint(other)
	await.Until(t, time.Now().Add(held))
	s.stays(pod)
	s.awaitStatus(policy, "holds both", func(status *v1alpha1.EvictionPolicyStatus) bool { return status.Held == 2 })
	s.untaint(other)
	freed := time.Now()
	s.remove(policy)
	s.wantBetween("pod leaves", s.leaves(pod), freed, freed.Add(tolerance))
	s.stays(spared)
	events, err := admin.CoreV1().Events(s.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=EvictionHeld,involvedObject.name=pod"})
	await.Must(t, err)
	if len(events.Items) != 1 || events.Items[0].Count > 1 {
		t.Errorf("events %v, want one", events.Items)
	}
}

func TestHoldUntilADeadline(t *testing.T) {
	s := newScene(t)
	node := s.node("tainted")
	s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: within(20 * time.Second)})
	pod := s.pod("pod", node)
	came := s.taint(node)
	s.wantBetween("pod leaves", s.leaves(pod), came.Add(20*time.Second), came.Add(20*time.Second+tolerance))
}

func TestEvictKeepsABudget(t *testing.T) {
	s := newScene(t)
	node := s.node("tainted")
	s.deployment("web", 3)
	s.node("other")
	s.budget("web", "web", 1)
	s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict})
	s.taint(node)
	await.Eventually(t, "all pods have left the node", func(ctx context.Context) error {
		all, there, err := s.ready(ctx, "web", node)
		if err == nil && all < 2 {
			t.Errorf("%d pods are ready, want 2 at least", all)
		}
		if err == nil && there > 0 {
			err = fmt.Errorf("%d ready pods are there", there)
		}
		return err
	})
	s.awaitReady("web", 3)
	for _, c := range audit.All(t, asks, auditlog.In(s.Namespace)) {
		if c.Code == 409 {
			t.Errorf("a call that burnt the budget: %v", c)
		}
	}
	if deletes := audit.All(t, auditlog.Deletes, auditlog.In(s.Namespace)); len(deletes) > 0 {
		t.Errorf("deletes %v, want none", deletes)
	}
}

func TestEvictAndABudgetThatAllowsNothing(t *testing.T) {
	const pods = 40
	s := newScene(t)
	node := s.node("tainted")
	s.deployment("web", pods)
	s.budget("web", "web", 0)
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict})
	s.taint(node)
	await.Until(t, time.Now().Add(held))
	if calls := audit.All(t, asks, auditlog.In(s.Namespace)); len(calls) > 3 {
		t.Errorf("%d calls for %d pods of one budget, want 3 at most", len(calls), pods)
	}
	s.awaitStatus(policy, "holds all", func(status *v1alpha1.EvictionPolicyStatus) bool { return status.Held == pods })
	budget, err := admin.PolicyV1().PodDisruptionBudgets(s.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	await.Must(t, err)
	all := intstr.FromString("100%")
	budget.Spec.MaxUnavailable = &all
	raised := time.Now()
	_, err = admin.PolicyV1().PodDisruptionBudgets(s.Namespace).Update(t.Context(), budget, metav1.UpdateOptions{})
	await.Must(t, err)
	await.Eventually(t, "the first pod leaves", func(context.Context) error {
		calls := audit.All(t, asks, auditlog.In(s.Namespace), auditlog.Accepted)
		if len(calls) == 0 {
			return fmt.Errorf("none has left")
		}
		s.wantBetween("the first pod leaves", calls[0].Received, raised, raised.Add(tolerance))
		return nil
	})
}

func TestEvictAndTwoBudgets(t *testing.T) {
	s := newScene(t)
	node := s.node("tainted")
	s.createBudget("one", "web", 1)
	s.createBudget("two", "web", 1)
	s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Deadline: within(held)})
	pod := s.pod("pod", node, labelled("web"))
	came := s.taint(node)
	s.wantBetween("pod leaves", s.leaves(pod), came.Add(held), came.Add(held+tolerance))
	if calls := audit.All(t, asks, auditlog.In(s.Namespace)); len(calls) > 0 {
		t.Errorf("calls %v, want none", calls)
	}
}

func TestPace(t *testing.T) {
	const pods, most, per = 8, 2, 6 * time.Second
	s := newScene(t)
	node := s.node("tainted")
	s.policy(v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete,
		Pace:   &v1alpha1.EvictionPace{Pods: most, Per: metav1.Duration{Duration: per}, Scope: v1alpha1.ScopeZone},
	})
	for i := range pods {
		s.pod(fmt.Sprint("pod-", i), node)
	}
	s.taint(node)
	var at []time.Time
	await.Eventually(t, "all pods leave", func(context.Context) error {
		at = nil
		for _, c := range audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.In(s.Namespace)) {
			at = append(at, c.Received)
		}
		if len(at) < pods {
			return fmt.Errorf("%d of %d have", len(at), pods)
		}
		return nil
	})
	slices.SortFunc(at, time.Time.Compare)
	for i := most; i < len(at); i++ {
		if at[i].Sub(at[i-most]) < per-time.Second {
			t.Errorf("%d pods left within %s", most+1, at[i].Sub(at[i-most]))
		}
	}
}

func TestBreaker(t *testing.T) {
	s := newScene(t)
	node := s.node("tainted")
	policy := s.policy(v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(2)},
	})
	pods := []*corev1.Pod{s.pod("a", node), s.pod("b", node), s.pod("c", node)}
	s.taint(node)
	s.awaitStatus(policy, "has tripped", func(status *v1alpha1.EvictionPolicyStatus) bool {
		return slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionTripped && c.Status == metav1.ConditionTrue
		})
	})
	await.Until(t, time.Now().Add(held))
	for _, pod := range pods {
		s.stays(pod)
	}
	s.untaint(node)
	s.awaitStatus(policy, "has closed", func(status *v1alpha1.EvictionPolicyStatus) bool {
		return slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionTripped && c.Status == metav1.ConditionFalse
		})
	})
}
