// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

// settle is the settle of breakers. It is longer than the horizon, so that all pods that leave are counted together,
// however busy the machine is.
const settle = (horizon + 2) * time.Second

// object draws what objects to evictions: PodDisruptionBudgets, and up to three EvictionPolicies. It returns once both
// are in force. In the first round, a policy holds every pod that policies may select: where the pods run is not drawn,
// so those that the other policies select may all be on nodes without a taint.
func (r *round) object() {
	if r.first {
		r.must(objects.Create(r.T.Context(), &v1alpha1.EvictionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: r.Name + "-all"},
			Spec: v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionHold, Deadline: &metav1.Duration{Duration: 3 * time.Second},
				NamespaceSelector: selecting(corev1.LabelMetadataName, r.Name), PodSelector: selecting("kept", "true"),
			},
		}))
	}
	for i := range firstJob { // a budget cannot count the pods of a Job
		if r.random.IntN(2) == 0 {
			r.budget(appName(i), workloads.Pick(r.random, "0%", "100%"))
		}
	}
	actions := r.random.Perm(4)[:r.random.IntN(4)]
	for _, i := range actions {
		policy := &v1alpha1.EvictionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", r.Name, i)},
			Spec:       []func() v1alpha1.EvictionPolicySpec{r.holds, r.asks, r.paces, r.breaks}[i](),
		}
		policy.Spec.NamespaceSelector = selecting(corev1.LabelMetadataName, r.Name)
		policy.Spec.PodSelector = selecting("kept", "true")
		if r.random.IntN(2) == 0 {
			policy.Spec.PodSelector.MatchLabels["half"] = v1alpha1.LabelValue(workloads.Pick(r.random, "0", "1"))
		}
		if r.random.IntN(4) == 0 {
			policy.Spec.NodeSelector = selecting(corev1.LabelTopologyZone, workloads.Pick(r.random, "a", "b"))
		}
		policy.Spec.DryRun = r.random.IntN(6) == 0 && policy.Spec.Paused == nil
		r.counted = r.counted || policy.Spec.Pace != nil || policy.Spec.Breaker != nil
		r.must(objects.Create(r.T.Context(), policy))
	}
	await.Eventually(r.T, "policies are followed", func(ctx context.Context) error {
		var all v1alpha1.EvictionPolicyList
		err := objects.List(ctx, &all)
		for i := range all.Items {
			if all.Items[i].Status.ObservedGeneration == 0 {
				err = errors.New("no status says so")
			}
		}
		return err
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
			Scope: workloads.Pick(r.random, v1alpha1.ScopeNode, v1alpha1.ScopeZone, v1alpha1.ScopeCluster),
		},
	}
}

// breaks draws a policy with a breaker. It applies to all taints: a pod that another taint frees counts for a moment
// only, which a busy machine may miss.
func (r *round) breaks() v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete,
		Breaker: &v1alpha1.EvictionBreaker{
			MaxDue: workloads.Pick(r.random, intstr.FromInt32(3), intstr.FromString("20%"), intstr.FromString("80%")),
			Settle: &metav1.Duration{Duration: settle},
		},
	}
}

// applies draws the taints that a policy applies to.
func (r *round) applies() []v1alpha1.EvictionPolicyTaint {
	if r.random.IntN(2) == 0 {
		return nil
	}
	return []v1alpha1.EvictionPolicyTaint{{Key: workloads.Pick(r.random, keys...)}}
}

func (r *round) deadline() *metav1.Duration {
	return workloads.Pick(r.random, nil, &metav1.Duration{Duration: 3 * time.Second}, &metav1.Duration{Duration: 6 * time.Second})
}

func selecting(key, value string) *v1alpha1.Selector {
	return &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}}
}

// budget makes a PodDisruptionBudget that allows every disruption or none, and returns once it says so.
func (r *round) budget(app, maxUnavailable string) {
	spec := policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString(maxUnavailable))}
	r.Budget(app, spec, func(is policyv1.PodDisruptionBudgetStatus) bool {
		return is.ObservedGeneration > 0 && (maxUnavailable == "0%" || is.DisruptionsAllowed == is.ExpectedPods)
	})
}
