// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// marker sets the condition Ready of the pods of a silent node to False, so that no Service sends them traffic. Their
// kubelet would do it if it could.
type marker struct {
	nodes    *nodecache.Cache
	pods     *podcache.Cache
	clock    *timeline.Clock
	api      api
	events   *events
	backoffs apicall.Backoffs[types.UID] // pods that could not be marked
}

// Reconcile marks the pods of one node, and requeues the node until all are done.
func (m *marker) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	var failed []error
	var next time.Duration
	for _, pod := range m.pods.OnNode(req.Name) {
		if !pod.Flags.Has(podcache.Ready) {
			continue
		}
		if !m.silent(req.Name) || apicall.Stopping(ctx) {
			break
		}
		if wait := m.backoffs.Wait(pod.UID, m.clock.Now()); wait > 0 {
			next = sooner(next, wait)
			continue
		}
		if err := m.mark(ctx, pod); err != nil {
			m.backoffs.Fail(pod.UID, err, m.clock.Now())
			failed = append(failed, err)
			continue
		}
		m.backoffs.Forget(pod.UID)
	}
	switch {
	case apicall.Stopping(ctx):
		return reconcile.Result{}, nil
	case len(failed) > 0: // the queue's backoff is short, and the next request finds each pod with its own
		return reconcile.Result{}, errors.Join(failed...)
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

func (m *marker) silent(name string) bool {
	node, ok := m.nodes.Get(name)
	if !ok {
		return false
	}
	ready := readiness.Condition(node.Node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

// mark marks one pod. A pod that is gone, or whose name another pod has, is done.
func (m *marker) mark(ctx context.Context, pod *podcache.Pod) error {
	err := m.api.patchPodNotReady(ctx, pod, m.clock.Latest())
	switch {
	case apicall.IsNotFound(err), apicall.IsAnotherUID(err):
		return nil
	case err != nil:
		return fmt.Errorf("set the condition Ready of pod %s to False: %w", pod.Key(), err)
	}
	m.events.podNotReady(pod)
	return nil
}
