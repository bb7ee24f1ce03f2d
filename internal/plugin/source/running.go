// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// Keepers selects the pods in which the chart and config/deployment.yaml run Taintkeeper.
const Keepers = "app.kubernetes.io/name=taintkeeper"

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

// election reads the Lease that the replicas of Taintkeeper use to elect a leader.
func (r *Reader) election(ctx context.Context) error {
	r.Cluster.Signs.Leases = nil
	err := r.Lease(ctx, plan.Taintkeeper, r.Cluster.Signs.AddLease)
	r.Cluster.Signs.LeasesKnown = err == nil
	return err
}

// Idle finds out whether Taintkeeper evicts, and what it means if it does not. It reads the Lease with the usual name.
// If no replica holds it, it also reads Taintkeeper's pods, whose flags may name another Lease or none, and its
// eviction clock.
func (r *Reader) Idle(ctx context.Context) error {
	fresh := *r
	fresh.Cluster = &plan.Cluster{}
	running, err := fresh.running(ctx)
	if err == nil && running.Mode == "" {
		running, err = fresh.lookCloser(ctx)
	}
	if err != nil {
		return err
	}
	r.Cluster.Idle = r.Cluster.IdleAt(running, r.Clock.Latest())
	return nil
}

func (r *Reader) running(ctx context.Context) (plan.Running, error) {
	if err := r.election(ctx); err != nil && !IsUnreadable(err) {
		return plan.Running{}, err
	}
	return r.Cluster.Running(r.Clock.Latest()), nil
}

// lookCloser says whether Taintkeeper is running, from its pods and its eviction clock too.
func (r *Reader) lookCloser(ctx context.Context) (plan.Running, error) {
	list := func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		options.LabelSelector = Keepers
		return r.Clients.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
	}
	denied := List(ctx, r, "pods", list, Keep(&r.Cluster.Pods, plan.SlimPod))
	if denied != nil && !IsUnreadable(denied) {
		return plan.Running{}, denied
	}
	if err := r.evictionClocks(ctx); err != nil {
		return plan.Running{}, err
	}
	running, err := r.running(ctx)
	running.Known = running.Known && (denied == nil || running.Mode != "")
	return running, err
}
