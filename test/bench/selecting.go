// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// selectingResult is what three EvictionPolicies cost that select slim pods by labels which the process did not keep
// before.
type selectingResult struct {
	Effect time.Duration `json:"effect"` // from the last create until the status counts just the selected pods
	CPU    time.Duration `json:"cpu"`    // of the process until then
}

// benchPolicies are the policies, and the labels by which each selects: an app, a team, a tier.
var benchPolicies = map[string]struct{ key, value string }{
	"bench-app":  {slimAppLabel, slimApp(1)},
	"bench-team": {slimTeamLabel, slimTeam(1)},
	"bench-tier": {slimTierLabel, slimTier(1)},
}

// selecting creates the policies, waits until they select what they should, and removes them. What they cost in memory
// is less than what the garbage collector leaves: see BenchmarkRecord150k in internal/cluster/podcache.
func (b *bench) selecting(ctx context.Context, p *process) (result selectingResult, err error) {
	writer, err := b.cluster.Client()
	if err != nil {
		return result, err
	}
	before, err := p.cpu()
	if err != nil {
		return result, err
	}
	began := time.Now()
	for name, by := range benchPolicies {
		policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.EvictionPolicySpec{
			Action:      v1alpha1.ActionHold,
			PodSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{by.key: v1alpha1.LabelValue(by.value)}},
		}}
		if err := writer.Create(ctx, policy); err != nil {
			return result, err
		}
	}
	if err := b.awaitSelected(ctx, writer); err != nil {
		return result, err
	}
	result.Effect = time.Since(began)
	after, err := p.cpu()
	if err != nil {
		return result, err
	}
	result.CPU = after - before
	return result, writer.DeleteAllOf(ctx, &v1alpha1.EvictionPolicy{})
}

// awaitSelected waits until each status counts the slim pods that the policy selects.
func (b *bench) awaitSelected(ctx context.Context, reader client.Reader) error {
	want := map[string]int32{}
	for i := range b.slimPods {
		labels := slimLabels(i)
		for name, by := range benchPolicies {
			if labels[by.key] == by.value {
				want[name]++
			}
		}
	}
	return await.Poll(ctx, func(ctx context.Context) error {
		var all v1alpha1.EvictionPolicyList
		if err := reader.List(ctx, &all); err != nil {
			return err
		}
		for _, policy := range all.Items {
			if got := policy.Status.Selected; got != want[policy.Name] {
				return fmt.Errorf("policy %s selects %d pods, want %d", policy.Name, got, want[policy.Name])
			}
		}
		return nil
	})
}
