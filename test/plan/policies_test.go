// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// settle is the settle of breakers. It is longer than the horizon, so that all pods that leave are counted together,
// however busy the machine is.
const settle = (horizon + 2) * time.Second

// object draws what objects to evictions: PodDisruptionBudgets, and up to three EvictionPolicies. It returns once both
// are in force. In the first round, a policy holds every pod that policies may select: where the pods run is not drawn,
// so those that the other policies select may all be on nodes without a taint.
func (r *round) object() {
	if r.first {
		r.must(objects.Create(r.t.Context(), &v1alpha1.EvictionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: r.namespace + "-all"},
			Spec: v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionHold, Deadline: &metav1.Duration{Duration: 3 * time.Second},
				NamespaceSelector: selecting(corev1.LabelMetadataName, r.namespace), PodSelector: selecting("kept", "true"),
			},
		}))
	}
	for i := range firstJob { // a budget cannot count the pods of a Job
		if r.random.IntN(2) == 0 {
			r.budget(appName(i), pick(r.random, "0%", "100%"))
		}
	}
	actions := r.random.Perm(4)[:r.random.IntN(4)]
	for _, i := range actions {
		policy := &v1alpha1.EvictionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", r.namespace, i)},
			Spec:       []func() v1alpha1.EvictionPolicySpec{r.holds, r.asks, r.paces, r.breaks}[i](),
		}
		policy.Spec.NamespaceSelector = selecting(corev1.LabelMetadataName, r.namespace)
		policy.Spec.PodSelector = selecting("kept", "true")
		if r.random.IntN(2) == 0 {
			policy.Spec.PodSelector.MatchLabels["half"] = v1alpha1.LabelValue(pick(r.random, "0", "1"))
		}
		if r.random.IntN(4) == 0 {
			policy.Spec.NodeSelector = selecting(corev1.LabelTopologyZone, pick(r.random, "a", "b"))
		}
		policy.Spec.DryRun = r.random.IntN(6) == 0 && policy.Spec.Paused == nil
		r.counted = r.counted || policy.Spec.Pace != nil || policy.Spec.Breaker != nil
		r.must(objects.Create(r.t.Context(), policy))
	}
	r.await("policies are followed", func(ctx context.Context) (bool, error) {
		var all v1alpha1.EvictionPolicyList
		err := objects.List(ctx, &all)
		for i := range all.Items {
			if all.Items[i].Status.ObservedGeneration == 0 {
				return false, err
			}
		}
		return err == nil, nil
	})
}

// holds draws a policy that holds pods, for some time, until it is removed, or because it is paused.
func (r *round) holds() v1alpha1.EvictionPolicySpec {
	spec := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Taints: r.applies(), Deadline: r.deadline()}
	if r.random.IntN(4) == 0 {
		spec.Paused = new("a round of the test")
	}
	return spec
}

// asks draws a policy that asks the Eviction API.
func (r *round) asks() v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Taints: r.applies(), Deadline: r.deadline()}
}

// paces draws a policy with a pace. It has seen a whole window when the taints are set, as all pods had to start first.
func (r *round) paces() v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Taints: r.applies(),
		Pace: &v1alpha1.EvictionPace{
			Pods: int32(2 + r.random.IntN(5)), Per: metav1.Duration{Duration: 2 * time.Second},
			Scope: pick(r.random, v1alpha1.ScopeNode, v1alpha1.ScopeZone, v1alpha1.ScopeCluster),
		},
	}
}

// breaks draws a policy with a breaker. It applies to all taints: a pod that another taint frees counts for a moment
// only, which a busy machine may miss.
func (r *round) breaks() v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete,
		Breaker: &v1alpha1.EvictionBreaker{
			MaxDue: pick(r.random, intstr.FromInt32(3), intstr.FromString("20%"), intstr.FromString("80%")),
			Settle: &metav1.Duration{Duration: settle},
		},
	}
}

// applies draws the taints that a policy applies to.
func (r *round) applies() []v1alpha1.EvictionPolicyTaint {
	if r.random.IntN(2) == 0 {
		return nil
	}
	return []v1alpha1.EvictionPolicyTaint{{Key: pick(r.random, keys...)}}
}

func (r *round) deadline() *metav1.Duration {
	return pick(r.random, nil, &metav1.Duration{Duration: 3 * time.Second}, &metav1.Duration{Duration: 6 * time.Second})
}

func selecting(key, value string) *v1alpha1.Selector {
	return &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}}
}

// budget makes a PodDisruptionBudget that allows every disruption or none, and returns once it says so.
func (r *round) budget(app, maxUnavailable string) {
	budgets := admin.PolicyV1().PodDisruptionBudgets(r.namespace)
	_, err := budgets.Create(r.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromString(maxUnavailable)),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	r.must(err)
	r.await("budget "+app+" knows its pods", func(ctx context.Context) (bool, error) {
		budget, err := budgets.Get(ctx, app, metav1.GetOptions{})
		if err != nil || budget.Status.ObservedGeneration == 0 || budget.Status.ExpectedPods == 0 {
			return false, err
		}
		return maxUnavailable == "0%" || budget.Status.DisruptionsAllowed == budget.Status.ExpectedPods, nil
	})
}

// agree removes what objects.
func (r *round) agree() {
	r.must(objects.DeleteAllOf(r.t.Context(), &v1alpha1.EvictionPolicy{}))
	r.must(objects.DeleteAllOf(r.t.Context(), &policyv1.PodDisruptionBudget{}, client.InNamespace(r.namespace)))
}
