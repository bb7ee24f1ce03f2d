// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// A pod that is unread may turn out to leave, so that a breaker can be strict, and may turn out to be kept by its
// budget, so that a breaker need not trip.
func TestABreakerCountsPodsThatAreUnreadApart(t *testing.T) {
	brake := named(t, "brake", spec{Action: v1alpha1.ActionEvict, Breaker: &v1alpha1.EvictionBreaker{}})
	other := named(t, "other", spec{Action: v1alpha1.ActionHold})
	causes := []policy.Cause{{Taint: &corev1.Taint{Key: "x"}, Due: due}}
	var demand policy.Demand
	for _, one := range []struct {
		pod    policy.Pod
		by     []*policy.Policy
		counts bool
		unread bool
	}{
		{pod: allowed, by: []*policy.Policy{brake}, counts: true},
		{pod: policy.Pod{}, by: []*policy.Policy{brake}, counts: true},
		{pod: blockedBy(policy.PodUnread), by: []*policy.Policy{brake}, counts: true, unread: true},
		{pod: blockedBy(policy.PodUnread), by: []*policy.Policy{brake, other}},
		{pod: blockedBy(policy.SeveralBudgets), by: []*policy.Policy{brake}},
	} {
		said, counts := brake.Counts(one.by, &one.pod, causes, due)
		if counts != one.counts {
			t.Errorf("a pod with %v counts: %t, want %t", one.pod.Budgets, counts, one.counts)
		}
		if counts && demand.Add(&one.pod, said, 1) != one.unread {
			t.Errorf("a pod with %v must be read: %t, want %t", one.pod.Budgets, !one.unread, one.unread)
		}
	}
	var all policy.Demand
	all.Join(&demand, 1)
	for allows, want := range map[int][2]int{0: {1, 2}, 5: {2, 3}} {
		allowed := func(string) int { return allows }
		if certain, most := all.Pods(allowed), all.AtMost(allowed); certain != want[0] || most != want[1] {
			t.Errorf("with a budget that allows %d, it counts %d to %d pods, want %v", allows, certain, most, want)
		}
	}
}

func TestABreakerCountsNoPodsBecauseOfOtherTaints(t *testing.T) {
	taints := []v1alpha1.EvictionPolicyTaint{{Key: "x"}}
	brake := named(t, "brake", spec{Action: v1alpha1.ActionDelete, Taints: taints, Breaker: &v1alpha1.EvictionBreaker{}})
	for key, want := range map[string]bool{"x": true, "y": false} {
		causes := []policy.Cause{{Taint: &corev1.Taint{Key: key}, Due: due}}
		if _, counts := brake.Counts([]*policy.Policy{brake}, &policy.Pod{}, causes, due); counts != want {
			t.Errorf("a pod that is due by %s counts: %t", key, counts)
		}
	}
}

func TestDemandsAddUp(t *testing.T) {
	asks := policy.Said{Answer: policy.Answer{Step: policy.Ask}}
	unread := blockedBy(policy.PodUnread)
	var one, all policy.Demand
	for range 2 {
		one.Add(&policy.Pod{}, policy.Said{}, 3) // nothing objects
		one.Add(&policy.Pod{}, asks, 2)          // no budget selects it
		one.Add(&allowed, asks, 4)
		one.Add(&unread, asks, 1)
	}
	one.Add(&allowed, asks, -1)
	all.Join(&one, 1)
	all.Join(&one, 1)
	for allows, want := range map[int][2]int{0: {20, 24}, 5: {25, 29}, 100: {34, 38}} {
		allowed := func(string) int { return allows }
		if certain, most := all.Pods(allowed), all.AtMost(allowed); certain != want[0] || most != want[1] {
			t.Errorf("with a budget that allows %d, it counts %d to %d pods, want %v", allows, certain, most, want)
		}
	}
}
