// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// comesBackWithin is how soon the policies of a resource that is installed again must be in force.
const comesBackWithin = 2 * time.Second

// TestPoliciesFollowTheRestoredState restores a snapshot in which EvictionPolicies are not even installed, and then
// installs them again.
func TestPoliciesFollowTheRestoredState(t *testing.T) {
	s := newScene(t)
	tainted := s.node(t, "tainted")
	held := s.pod(t, "held", tainted)
	came := s.taint(t, tainted, nil)
	snapshot := s.backUp(t)

	await.Must(t, cluster.InstallResources(t.Context()))
	s.policy(t, v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})
	s.keep(t)
	s.writeMuch(t)
	await.Until(t, time.Now().Add(5*time.Second))
	s.untouched(t, held)
	restored := s.restore(t, snapshot)
	s.leaves(t, held, restored, came.From)

	await.Must(t, cluster.InstallResources(t.Context()))
	s.policy(t, v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})
	inForce := time.Now().Add(comesBackWithin)
	await.Until(t, inForce.Add(cluster.Stalls().Allowed(inForce.Add(-comesBackWithin), inForce)))
	again := s.pod(t, "again", tainted)
	await.Until(t, time.Now().Add(5*time.Second))
	s.untouched(t, again)
}

// TestBudgetsFollowTheRestoredState restores a snapshot without the budget that has kept a pod. Nothing keeps the
// status of budgets in this cluster, so none allows anything.
func TestBudgetsFollowTheRestoredState(t *testing.T) {
	s := newScene(t)
	tainted := s.node(t, "tainted")
	pod := s.pod(t, "budgeted", tainted, func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": s.Namespace} })
	s.runs(t, pod)
	await.Must(t, cluster.InstallResources(t.Context()))
	s.policy(t, v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Unready: v1alpha1.UnreadyAsk}) // nodes are not ready here
	s.taint(t, tainted, nil)
	snapshot := s.backUp(t)

	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}
	budgets := admin.PolicyV1().PodDisruptionBudgets(s.Namespace)
	budget, err := budgets.Create(t.Context(), budget, metav1.CreateOptions{})
	await.Must(t, err)
	s.keep(t)
	s.writeMuch(t)
	budget.Labels = map[string]string{"changed": "last"} // the watch brings a version that the snapshot does not reach
	_, err = budgets.Update(t.Context(), budget, metav1.UpdateOptions{})
	await.Must(t, err)
	await.Until(t, time.Now().Add(5*time.Second))
	s.untouched(t, pod)
	s.standingStill(t, func() { s.restore(t, snapshot) })
	await.Eventually(t, "the pod leaves", func(ctx context.Context) error {
		is, err := admin.CoreV1().Pods(s.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && is.DeletionTimestamp == nil {
			err = errors.New("it is still there")
		}
		return err
	})
}

// policy creates a policy for the pods of the scene, which may hold them from now on.
func (s *scene) policy(t *testing.T, spec v1alpha1.EvictionPolicySpec) {
	t.Helper()
	custom, err := cluster.Client()
	await.Must(t, err)
	spec.NamespaceSelector = &v1alpha1.Selector{
		MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelMetadataName: v1alpha1.LabelValue(s.Namespace)},
	}
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}, Spec: spec}
	s.holds = true
	await.Must(t, custom.Create(t.Context(), policy))
}

// runs reports that a pod runs and is ready, as its kubelet does.
func (s *scene) runs(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods := admin.CoreV1().Pods(s.Namespace)
	is, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	await.Must(t, err)
	is.Status.Phase = corev1.PodRunning
	is.Status.Conditions = append(is.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	})
	_, err = pods.UpdateStatus(t.Context(), is, metav1.UpdateOptions{})
	await.Must(t, err)
}
