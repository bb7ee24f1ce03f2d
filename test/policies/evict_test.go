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
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

func labeled(app string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
}

// asked are the calls of the Eviction API about pods of the scene.
func (s *scene) asked(wanted ...auditlog.Filter) []auditlog.Event {
	s.t.Helper()
	return audit.All(s.t, append(wanted, asks, auditlog.In(s.Namespace))...)
}

// awaitBudget waits until the status of a budget is as it should be, and returns it.
func (s *scene) awaitBudget(name, what string, is func(*policyv1.PodDisruptionBudget) bool) (budget *policyv1.PodDisruptionBudget) {
	s.t.Helper()
	await.Eventually(s.t, "budget "+name+" "+what, func(ctx context.Context) (err error) {
		budget, err = admin.PolicyV1().PodDisruptionBudgets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && (budget.Status.ObservedGeneration < budget.Generation || !is(budget)) {
			err = fmt.Errorf("its status is %+v", budget.Status)
		}
		return err
	})
	return budget
}

// raise lets a budget allow everything.
func (s *scene) raise(budget string) time.Time {
	s.t.Helper()
	all := []byte(`{"spec":{"maxUnavailable":"100%"}}`)
	raised := time.Now()
	_, err := admin.PolicyV1().PodDisruptionBudgets(s.Namespace).Patch(s.t.Context(), budget, types.MergePatchType, all, metav1.PatchOptions{})
	await.Must(s.t, err)
	return raised
}

func TestEvictKeepsABudget(t *testing.T) {
	s := newScene(t)
	node := s.node("tainted")
	before := s.deployment("web", 3)
	s.node("other")
	s.budget("web", "web", 1)
	s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict})
	s.taint(node)
	await.Eventually(t, "all pods have left the node", func(ctx context.Context) error {
		ready, err := s.ready(ctx, "web")
		if err == nil && len(ready) < 2 {
			t.Errorf("%d pods are ready, want 2 at least", len(ready))
		}
		if slices.ContainsFunc(ready, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node }) {
			err = fmt.Errorf("ready pods are there")
		}
		return err
	})
	s.awaitReady("web", 3)
	for _, c := range s.asked() {
		if c.Code == 409 {
			t.Errorf("a call that burnt the budget: %v", c)
		}
		if !slices.ContainsFunc(before, func(pod corev1.Pod) bool { return pod.Name == c.Name }) {
			t.Errorf("a call about a pod that was not on the node: %v", c)
		}
	}
	if deletes := s.left(); len(deletes) > 0 {
		t.Errorf("deletes %v, want none", deletes)
	}
}

func TestEvictAndABudgetThatAllowsNothing(t *testing.T) {
	const pods = 100
	s := newScene(t)
	node := s.node("tainted")
	s.deployment("web", pods)
	budget := s.budget("web", "web", 0)
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict})
	s.taint(node)
	await.Until(t, time.Now().Add(*held))
	if calls := s.asked(); len(calls) > 3 {
		t.Errorf("%d calls for %d pods of one budget, want 3 at most", len(calls), pods)
	}
	s.awaitStatus(policy, "names the budget", func(status *v1alpha1.EvictionPolicyStatus) bool {
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHolding)
		return status.Held == pods && c != nil && c.Reason == "Budget"
	})
	raised := s.raise(budget.Name)
	await.Eventually(t, "all pods leave", func(context.Context) error {
		if calls := s.asked(auditlog.Accepted); len(calls) < pods {
			return fmt.Errorf("%d of %d have", len(calls), pods)
		}
		return nil
	})
	s.wantBetween("the first pod leaves", s.asked(auditlog.Accepted)[0].Received, raised, raised)
}

func TestEvictAndTwoBudgets(t *testing.T) {
	s := newScene(t)
	node := s.node("tainted")
	s.createBudget("one", "web", 1)
	s.createBudget("two", "web", 1)
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict})
	pod := s.pod("pod", node, labeled("web"))
	s.taint(node)
	await.Until(t, time.Now().Add(*held))
	s.awaitHeld(policy, 1)
	s.stays(pod)
	if calls := s.asked(); len(calls) > 0 {
		t.Errorf("calls %v, want none", calls)
	}
}

func TestEvictAndAPodThatIsNotReady(t *testing.T) {
	const deadline = 20 * time.Second
	evict := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict}
	ask := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Unready: v1alpha1.UnreadyAsk, Deadline: within(deadline)}
	for name, test := range map[string]struct {
		spec v1alpha1.EvictionPolicySpec
		late time.Duration
	}{
		"is deleted when it is due":                {evict, 0},
		"waits for the deadline with unready: Ask": {ask, deadline},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			node := s.node("tainted")
			pod := s.deployment("web", 1)[0]
			s.createBudget("web", "web", 1)
			notReady := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":%q}]}}`,
				time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
			_, err := admin.CoreV1().Pods(s.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, notReady, metav1.PatchOptions{}, "status")
			await.Must(t, err)
			s.awaitBudget("web", "allows nothing", func(budget *policyv1.PodDisruptionBudget) bool {
				return budget.Status.ExpectedPods == 1 && budget.Status.CurrentHealthy == 0
			})
			s.policy(test.spec)
			came := s.taint(node)
			s.wantBetween("pod leaves", s.leaves(&pod), came.Add(test.late), came.Add(test.late))
			if deletes := s.left(); len(deletes) != 1 {
				t.Errorf("deletes %v, want one", deletes)
			}
		})
	}
}

func TestAReplacementUnderTheSameNameIsNotEvicted(t *testing.T) {
	s := newScene(t)
	node := s.node("tainted")
	pod := s.statefulSet("web")
	budget := s.budget("web", "web", 0)
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict})
	s.taint(node)
	s.awaitHeld(policy, 1)
	s.node("other")
	await.Must(t, s.Remove(t.Context(), pod.Name))
	await.Eventually(t, "a replacement is ready", func(ctx context.Context) error {
		ready, err := s.ready(ctx, "web")
		if err == nil && (len(ready) != 1 || ready[0].UID == pod.UID) {
			err = fmt.Errorf("%d pods are ready", len(ready))
		}
		return err
	})
	s.raise(budget.Name)
	s.awaitBudget(budget.Name, "allows one", func(is *policyv1.PodDisruptionBudget) bool { return is.Status.DisruptionsAllowed == 1 })
	await.Until(t, time.Now().Add(5*time.Second))
	s.stays(&s.awaitReady("web", 1)[0])
	if calls := s.asked(); len(calls) > 0 {
		t.Errorf("calls %v, want none", calls)
	}
	s.awaitBudget(budget.Name, "has lost nothing", func(is *policyv1.PodDisruptionBudget) bool {
		return is.Status.DisruptionsAllowed == 1 && len(is.Status.DisruptedPods) == 0
	})
}
