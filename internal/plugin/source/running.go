// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// health reads the state of Taintkeeper: its Lease, its eviction clock, and its recent failures.
func (r *Reader) health(ctx context.Context, wanted Wants) error {
	if !wanted.Health {
		return nil
	}
	if err := r.without(r.election(ctx), "they cannot show whether Taintkeeper is running"); err != nil {
		return err
	}
	if err := r.evictionClocks(ctx); err != nil {
		return err
	}
	for _, reason := range v1alpha1.FailureEvents() {
		all := r.Clients.CoreV1().Events(metav1.NamespaceAll)
		which := fields.OneTermEqualSelector("reason", reason)
		err := listSome(ctx, r, "events", which, all.List, r.Cluster.Signs.AddFailure)
		if r.Cluster.Signs.FailuresKnown = err == nil; IsUnreadable(err) {
			return r.without(err, "the last error of Taintkeeper is not known")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// election reads the Lease of Taintkeeper's leader. Without one, the Lease of node health may show that it runs.
func (r *Reader) election(ctx context.Context) error {
	err := r.taintkeeper(ctx)
	if err == nil && !r.leads() {
		if err := r.nodeHealthLease(ctx); err != nil && !IsUnreadable(err) {
			return err
		}
	}
	r.Cluster.Signs.LeasesKnown = err == nil
	return err
}

// leads reports whether a leader of Taintkeeper holds a Lease that was read.
func (r *Reader) leads() bool {
	return slices.ContainsFunc(r.Cluster.Signs.Leases, func(lease *coordinationv1.Lease) bool {
		return state.ElectsTaintkeeper(lease) && state.IsHeld(lease, r.Clock.Latest())
	})
}

// Idle finds out whether Taintkeeper evicts, and what it means if it does not. If no leader holds the Lease with the
// usual name, it also reads what else shows Taintkeeper: its pods, the eviction clock and other Leases.
func (r *Reader) Idle(ctx context.Context) error {
	fresh := *r
	fresh.Cluster = &state.Cluster{}
	err := fresh.taintkeeper(ctx)
	if err != nil && !IsUnreadable(err) {
		return err
	}
	fresh.Cluster.Signs.LeasesKnown = err == nil
	if !fresh.leads() {
		if err := fresh.lookCloser(ctx); err != nil {
			return err
		}
	}
	r.Cluster.Idle = who.Ask(fresh.Cluster, r.Clock.Latest()).Idle(len(r.Cluster.Policies))
	return nil
}

// lookCloser reads Taintkeeper's pods and its eviction clock. If the pods may not be read, the Leases do not show that
// it is not running.
func (r *Reader) lookCloser(ctx context.Context) error {
	pods := r.Clients.CoreV1().Pods(metav1.NamespaceAll)
	err := List(ctx, r, "pods", selected(pods.List), func(pod *corev1.Pod) { state.Pods.Add(r.Cluster, pod) })
	if err != nil && !IsUnreadable(err) {
		return err
	}
	r.Cluster.Signs.LeasesKnown = r.Cluster.Signs.LeasesKnown && err == nil
	return r.evictionClocks(ctx)
}
