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

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// reclaimer puts our mark in the place of the built-in controller's. The built-in deletes a pod that has its exact mark
// without setting it again (pkg/controller/tainteviction/taint_eviction.go), and so without asking the admission policy
// that keeps it from evicting.
type reclaimer struct {
	judge judge
	nodes nodes
	pods  *podcache.Cache
	api   api
}

// keptMessage is the message of the condition of a pod that the built-in has marked and that has not to leave now.
const keptMessage = podcache.MarkPrefix + " marked by kube-controller-manager, and does not have to leave now"

// Reconcile rewrites the mark of one pod.
func (r *reclaimer) Reconcile(ctx context.Context, req PodRequest) (reconcile.Result, error) {
	pod, ok := r.pods.Get(req.UID)
	if !ok || !marked(pod) {
		return reconcile.Result{}, nil
	}
	status, message := corev1.ConditionFalse, keptMessage
	if r.due(pod) {
		status, message = corev1.ConditionTrue, conditionMessage
	}
	if err := r.api.turn(ctx); err != nil {
		return reconcile.Result{}, err
	}
	err := r.api.patchConditionOf(ctx, pod, status, message)
	if apicall.IsNotFound(err) || apicall.IsAnotherUID(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("rewrite the built-in controller's mark of pod %s: %w", pod.Key(), err)
	}
	logf.FromContext(ctx).Info("Rewrote the built-in controller's mark of a pod",
		"pod", klog.KRef(pod.Namespace, pod.Name), "disruptionTarget", status)
	return reconcile.Result{}, nil
}

func (r *reclaimer) due(pod *podcache.Pod) bool {
	tainted, ok := r.nodes.get(pod.Node)
	return ok && r.judge.due(pod, tainted.NoExecute)
}

// marked reports whether a live pod has the built-in's mark.
func marked(pod *podcache.Pod) bool {
	return pod.Flags.Has(podcache.MarkedByBuiltIn) && !pod.Flags.Has(podcache.Terminating)
}

// foreignMarks brings the pods that the built-in marks, and those that it has marked.
type foreignMarks struct{ e *Evictor }

// Start implements source.TypedSource.
func (s foreignMarks) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[PodRequest]) error {
	s.e.pods.Subscribe(func(change podcache.Change) {
		if pod := change.After; pod != nil && marked(pod) {
			queue.Add(requestFor(pod))
		}
	})
	return nil
}

// String names the source in the log.
func (s foreignMarks) String() string { return "pods that the built-in controller has marked" }

// WaitForSync implements source.TypedSyncingSource.
func (s foreignMarks) WaitForSync(ctx context.Context) error {
	return taintChanges{e: s.e}.WaitForSync(ctx)
}
