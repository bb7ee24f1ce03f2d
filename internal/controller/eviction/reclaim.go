// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// reclaimer corrects marks.
//
// Where the built-in controller runs, it replaces the built-in's marks with ours. If a pod has its exact mark, the
// built-in deletes the pod without setting the mark again (pkg/controller/tainteviction/taint_eviction.go), which
// bypasses the admission policy that keeps it from evicting.
//
// It also resets our mark on a pod that a policy holds now. Such a pod is not about to end, and kube-controller-manager
// would reset the mark after two minutes (pkg/controller/disruption).
type reclaimer struct {
	judge   judge
	nodes   nodes
	pods    *podcache.Cache
	api     api
	builtIn bool // the built-in controller runs
}

// Reconcile rewrites the mark of one pod, if it is wrong.
func (r *reclaimer) Reconcile(ctx context.Context, req PodRequest) (reconcile.Result, error) {
	pod, ok := r.pods.There(req.UID)
	if !ok || !r.marked(pod) {
		return reconcile.Result{}, nil
	}
	if !r.api.writers.begin(req.UID) {
		return reconcile.Result{RequeueAfter: apicall.FirstBackoff}, nil
	}
	defer r.api.writers.end(req.UID)
	due, held, why := r.judge.held(pod, r.nodes)
	status, message := corev1.ConditionFalse, v1alpha1.UnmarkMessage
	switch {
	case held:
		message = v1alpha1.StaysMessage(why.String())
	case pod.Flags.Has(podcache.MarkedByUs):
		return reconcile.Result{}, nil
	case due:
		status, message = corev1.ConditionTrue, v1alpha1.MarkMessage
	}
	if err := r.api.token(ctx); err != nil {
		return reconcile.Result{}, err
	}
	err := r.api.patchConditionOf(ctx, pod, status, message)
	if apicall.IsNotFound(err) || apicall.IsAnotherUID(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("rewrite the mark of pod %s: %w", pod.Key(), err)
	}
	logf.FromContext(ctx).Info("Rewrote the mark of a pod",
		"pod", klog.KRef(pod.Namespace, pod.Name), "disruptionTarget", status, "message", message)
	return reconcile.Result{}, nil
}

// marked reports whether a pod has a mark that can be wrong.
func (r *reclaimer) marked(pod *podcache.Pod) bool {
	return r.builtIn && pod.Flags.Has(podcache.MarkedByBuiltIn) ||
		r.judge.policies != nil && pod.Flags.Has(podcache.MarkedByUs)
}

// marks is the source of marked pods. It returns them again when the answers of policies may have changed.
type marks struct {
	e *Evictor
	r *reclaimer
}

// Start implements source.TypedSource.
func (s marks) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[PodRequest]) error {
	add := func(pod *podcache.Pod) {
		if s.r.marked(pod) && !pod.Flags.Has(podcache.Terminating) {
			queue.Add(requestFor(pod))
		}
	}
	s.e.pods.Subscribe(func(change podcache.Change) {
		if change.After != nil {
			add(change.After)
		}
	})
	if policies := s.e.config.Policies; policies != nil {
		on := func(node string) {
			for _, pod := range s.e.pods.OnNode(node) {
				add(pod)
			}
		}
		policies.Subscribe(on)
		s.e.nodes.subscribe(on)
	}
	return nil
}

// String names the source in the log.
func (s marks) String() string { return "marked pods" }

// WaitForSync implements source.TypedSyncingSource.
func (s marks) WaitForSync(ctx context.Context) error {
	return nodeChanges{e: s.e}.WaitForSync(ctx)
}
