// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stops

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// waits are what due pods can wait for. Each makes the pods of a scene wait, and returns what ends that.
var waits = []struct {
	name string
	keep func(s *scene) (end func())
}{
	{"a policy holds the pods", (*scene).hold},
	{"an admission policy refuses to delete the pods", (*scene).refuseDeletes},
	{"the pods' budget allows nothing", (*scene).allowNothing},
}

// restarting are acts in which kube-controller-manager restarts and then tries all pods again that are due and wait.
// Until the last moment, the new process has most of its tries left.
func restarting() (acts []act) {
	const due = 40
	for _, wait := range waits {
		for _, restart := range []struct {
			name string
			play func(s *scene)
		}{
			{"before the storm", func(s *scene) { s.restartAgain(); s.taint() }},
			{"in the storm", func(s *scene) { s.taint(); s.begun(due / 4); s.restartAgain() }},
			{"after the storm", func(s *scene) {
				s.taint()
				s.backlogEnds()
				s.after(due*time.Second + 2*time.Minute) // nothing is left that could be tried but for the restart
				s.restartAgain()
			}},
		} {
			acts = append(acts, act{
				name:    wait.name + ", kube-controller-manager restarts " + restart.name + ", untainted, clean stop",
				setting: setting{due: due, oneReplica: true},
				play: func(s *scene) {
					end := wait.keep(s)
					restart.play(s)
					s.begun(due / 4)
					s.untaint()
					end()
					s.stop()
					s.leaves(5)
				},
			})
		}
	}
	return append(acts, act{ // the built-in tries each pod twice, and its second DELETE can be of a replacement
		name:    "the pods' budget allows nothing, kube-controller-manager restarts after its backlog, clean stop",
		setting: setting{due: due, oneReplica: true}, unprotected: true,
		play: func(s *scene) {
			s.allowNothing()
			s.taint()
			s.backlogEnds()
			s.restartAgain()
			s.begun(due / 4)
			s.stop()
		},
	})
}

// restartAgain restarts kube-controller-manager. Only the evictions of the new process count from then on.
func (s *scene) restartAgain() { s.t.Helper(); s.restartBuiltIn()() }

// backlogEnds waits until the built-in has given up on all pods.
func (s *scene) backlogEnds() {
	s.t.Helper()
	s.begun(s.due)
	await.Eventually(s.t, "the built-in's backlog is over", func(context.Context) error {
		begun, ended, err := s.backlog()
		if err == nil && ended < begun {
			err = fmt.Errorf("%d of %d evictions have ended", ended, begun)
		}
		return err
	})
}

// policy creates an EvictionPolicy for the pods of the scene.
func (s *scene) policy(action v1alpha1.EvictionAction) (remove func()) {
	s.t.Helper()
	custom, err := cluster.Client()
	await.Must(s.t, err)
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		Spec: v1alpha1.EvictionPolicySpec{
			Action: action,
			NamespaceSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{
				corev1.LabelMetadataName: v1alpha1.LabelValue(s.Namespace),
			}},
		},
	}
	await.Must(s.t, custom.Create(s.t.Context(), policy))
	remove = func() {
		await.Must(s.t, client.IgnoreNotFound(custom.Delete(context.WithoutCancel(s.t.Context()), policy)))
	}
	s.t.Cleanup(remove)
	return remove
}

func (s *scene) hold() (end func()) { s.t.Helper(); return s.policy(v1alpha1.ActionHold) }

// allowNothing makes Taintkeeper ask a budget that lets no pod go. The built-in asks no budget.
func (s *scene) allowNothing() (end func()) {
	s.t.Helper()
	remove := s.policy(v1alpha1.ActionEvict)
	budgets := admin.PolicyV1().PodDisruptionBudgets(s.Namespace)
	_, err := budgets.Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: s.Labels()},
		},
	}, metav1.CreateOptions{})
	await.Must(s.t, err)
	await.Eventually(s.t, "the budget counts its pods", func(ctx context.Context) error {
		budget, err := budgets.Get(ctx, "all", metav1.GetOptions{})
		if err == nil && int(budget.Status.CurrentHealthy) < s.due {
			err = fmt.Errorf("it counts %d", budget.Status.CurrentHealthy)
		}
		return err
	})
	return remove
}

// refuseDeletes lets a policy refuse all deletes of the scene's pods, those of the built-in, too, until end is called.
func (s *scene) refuseDeletes() (end func()) {
	s.t.Helper()
	pods, err := admin.CoreV1().Pods(s.Namespace).List(s.t.Context(), metav1.ListOptions{Limit: 1})
	await.Must(s.t, err)
	allow, err := s.RefuseDeletes(s.t.Context(), &pods.Items[0])
	await.Must(s.t, err)
	end = func() { await.Must(s.t, allow()) }
	s.t.Cleanup(end)
	return end
}

// all are the acts of make stops.
func all() []act { return slices.Concat(acts, hostile, restarting()) }
