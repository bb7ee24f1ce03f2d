// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
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
	last    sync.Map // NodeRequest -> time.Time of the last stamp, for tainted nodes
}

// stampAfter is how long a taint is known before it is stamped. Pods that are due at once go first:
// in the outage of a zone every node has to be read and written, just when the first pods must leave.
const stampAfter = 250 * time.Millisecond

// refusedAfter is how many failures in a row, within some 25 s, are as good as a refusal.
const refusedAfter = 8

// stampEvery is how often one node is stamped at most: whoever writes its taints without their
// timeAdded again and again is not fought at full speed.
const stampEvery = time.Second

// Reconcile stamps one node, and comes back until it is stamped or there is nothing to stamp.
func (s *stamper) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	known, ok := s.nodes.get(req.Name)
	if !ok {
		s.last.Delete(req)
	}
	if !ok || !known.unstamped() {
		s.backoff.Forget(req)
		return reconcile.Result{}, nil
	}
	if last, ok := s.last.Load(req); ok && time.Since(last.(time.Time)) < stampEvery {
		return reconcile.Result{RequeueAfter: stampEvery - time.Since(last.(time.Time))}, nil
	}
	err := s.stamp(ctx, req.Name)
	if apicall.Stopping(ctx) { // shutting down: the next process goes on
		return reconcile.Result{}, nil
	}
	if err == nil {
		s.last.Store(req, time.Now())
	}
	if err == nil || apicall.IsNotFound(err) {
		s.backoff.Forget(req)
		return reconcile.Result{}, nil
	}
	s.metrics.retries.WithLabelValues(reason(err)).Inc()
	if s.backoff.NumRequeues(req) >= refusedAfter && apicall.Answered(err) {
		s.nodes.unstampable.Store(req.Name, struct{}{})
	}
	if s.backoff.NumRequeues(req) == troubleAfter {
		logf.FromContext(ctx).Info("Cannot write timeAdded of a NoExecute taint: its countdowns will not survive a restart; still trying", "node", req.Name, "reason", err.Error())
	}
	return reconcile.Result{RequeueAfter: s.backoff.When(req)}, nil
}

func (s *stamper) stamp(ctx context.Context, name string) error {
	live, err := s.api.node(ctx, name)
	if err != nil {
		return err
	}
	if err := s.api.turn(ctx); err != nil {
		return err
	}
	// What was read may be a taint that was taken off and set again. Only of the version that the
	// watch has brought is it known when each taint came.
	known, ok := s.nodes.get(name)
	if !ok || !known.unstamped() {
		return nil
	}
	if known.uid != live.UID || known.version != live.ResourceVersion {
		return errUnconfirmed
	}
	err = s.api.patchTaints(ctx, live, known.stamp(live.Spec.Taints))
	switch {
	case err == nil:
		s.nodes.unstampable.Delete(name)
	case apicall.Refused(err):
		s.nodes.unstampable.Store(name, struct{}{})
	}
	return err
}

// unstamped reports whether a NoExecute taint has no timeAdded.
func (n *node) unstamped() bool {
	return slices.ContainsFunc(n.taints, func(t verdict.Taint) bool { return t.TimeAdded.IsZero() })
}

// stamp returns all taints of the node with the missing timeAdded of its NoExecute taints filled
// in: the first sight to the second, rounded down as the API does. Read again after a restart,
// that counts from the end of the second, so never earlier than now.
func (n *node) stamp(all []corev1.Taint) []corev1.Taint {
	stamped := slices.Clone(all)
	for i := range stamped {
		for j := range n.taints {
			if stamped[i].MatchTaint(&n.taints[j].Taint) && stamped[i].TimeAdded.IsZero() {
				stamped[i].TimeAdded = &metav1.Time{Time: n.seen[j].Truncate(time.Second)}
			}
		}
	}
	return stamped
}
