// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// stamper writes the timeAdded of NoExecute taints that have none. Only the node-lifecycle
// controller sets it (not kubectl, not the API server), and without it no deadline survives this
// process. Until it is written, and where that is refused, the instant of first sight serves.
type stamper struct {
	nodes   *nodes
	api     api
	metrics *metrics
	backoff workqueue.TypedRateLimiter[NodeRequest]
}

// Reconcile stamps one node, and comes back until it is stamped or there is nothing to stamp.
func (s *stamper) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	known, ok := s.nodes.get(req.Name)
	if !ok || !known.unstamped() {
		s.backoff.Forget(req)
		return reconcile.Result{}, nil
	}
	err := s.stamp(ctx, req.Name, known)
	if stopping(ctx) { // shutting down: the next process goes on
		return reconcile.Result{}, nil
	}
	if err == nil || isNotFound(err) {
		s.backoff.Forget(req)
		return reconcile.Result{}, nil
	}
	s.metrics.retries.WithLabelValues(reason(err)).Inc()
	if s.backoff.NumRequeues(req) == conditionTries {
		logf.FromContext(ctx).Info("Cannot write timeAdded of a NoExecute taint: its countdowns will not survive a restart; still trying", "node", req.Name, "reason", err.Error())
	}
	return reconcile.Result{RequeueAfter: s.backoff.When(req)}, nil
}

func (s *stamper) stamp(ctx context.Context, name string, known *node) error {
	live, err := s.api.node(ctx, name)
	if err != nil {
		return err
	}
	if err := s.api.turn(ctx); err != nil {
		return err
	}
	current := known.advance(live, now())
	if !current.unstamped() {
		return nil
	}
	return s.api.patchTaints(ctx, live, current.stamp(live.Spec.Taints))
}

// unstamped reports whether a NoExecute taint has no timeAdded. It works on nil.
func (n *node) unstamped() bool {
	return n != nil && slices.ContainsFunc(n.taints, func(t verdict.Taint) bool { return t.TimeAdded == nil })
}

// stamp returns all taints of the node with the missing timeAdded of its NoExecute taints filled
// in: the first sight to the second, rounded down as the API does. Read again after a restart,
// that counts from the end of the second, so never earlier than now.
func (n *node) stamp(all []corev1.Taint) []corev1.Taint {
	stamped := slices.Clone(all)
	for i := range stamped {
		for j := range n.taints {
			if stamped[i].MatchTaint(&n.taints[j].Taint) && stamped[i].TimeAdded == nil {
				stamped[i].TimeAdded = &metav1.Time{Time: n.seen[j].Truncate(time.Second)}
			}
		}
	}
	return stamped
}
