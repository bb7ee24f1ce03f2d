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
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// evictor finds out who evicts pods, if that is wanted.
func (r *Reader) evictor(ctx context.Context, wanted Wants) error {
	if !wanted.Evictor {
		return nil
	}
	return r.FindEvictor(ctx)
}

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

// FindEvictor finds out who evicts pods. If no leader of Taintkeeper says that it does, it reads what else shows who
// does: pods of both programs, the eviction clock, other Leases and the events of evictions.
func (r *Reader) FindEvictor(ctx context.Context) error {
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
	known := who.Ask(fresh.Cluster, r.Clock.Latest())
	if known.Eviction.Taintkeeper.State != who.Running {
		fresh.Cluster.Pods = slices.Concat(fresh.Cluster.Pods, r.Cluster.Pods)
		if err := fresh.builtIn(ctx); err != nil {
			return err
		}
		known = who.Ask(fresh.Cluster, r.Clock.Latest())
	}
	r.Cluster.Evictor = known.Evictor(len(r.Cluster.Policies))
	return nil
}

// lookCloser reads Taintkeeper's pods and its eviction clock. If the pods may not be read, the Leases do not show that
// it is not running.
func (r *Reader) lookCloser(ctx context.Context) error {
	err := r.podsWith(ctx, v1alpha1.SelectTaintkeeper().String())
	if err != nil && !IsUnreadable(err) {
		return err
	}
	r.Cluster.Signs.LeasesKnown = r.Cluster.Signs.LeasesKnown && err == nil
	return r.evictionClocks(ctx)
}

// builtIn reads what shows whether kube-controller-manager evicts: the command lines of its pods, its Lease, and the
// events of evictions. What may not be read shows nothing.
func (r *Reader) builtIn(ctx context.Context) error {
	err := r.podsWith(ctx, "component="+builtin.Program) // as kubeadm labels them
	if err != nil && !IsUnreadable(err) {
		return err
	}
	if err := r.builtInLease(ctx); err != nil && !IsUnreadable(err) {
		return err
	}
	return r.evictions(ctx)
}

// podsWith reads the pods with a label.
func (r *Reader) podsWith(ctx context.Context, label string) error {
	list := func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		options.LabelSelector = label
		return r.Clients.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
	}
	return List(ctx, r, "pods", list, func(pod *corev1.Pod) { state.Pods.Add(r.Cluster, pod) })
}
