// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
)

// marker sets the condition Ready of the pods of a silent node to False, so that no Service sends them
// anything. Their own kubelet would do it, were it not silent.
type marker struct {
	nodes  *nodes
	pods   *podcache.Cache
	api    api
	events *events
}

// Reconcile marks the pods of one node. It comes back until all are done.
func (m *marker) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	var failed []error
	for _, pod := range m.pods.OnNode(req.Name) {
		if !pod.Flags.Has(podcache.Ready) {
			continue
		}
		if !m.silent(req.Name) || apicall.Stopping(ctx) {
			break
		}
		if err := m.mark(ctx, pod); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 || apicall.Stopping(ctx) {
		return reconcile.Result{}, nil
	}
	logf.FromContext(ctx).V(1).Info("Pods of a silent node could not be marked; trying again", "node", req.Name, "pods", len(failed), "reason", failed[0].Error())
	return reconcile.Result{RequeueAfter: markAgainAfter}, nil
}

// markAgainAfter is how long to wait before pods that could not be marked are tried again.
const markAgainAfter = time.Second

func (m *marker) silent(name string) bool {
	node, ok := m.nodes.get(name)
	if !ok {
		return false
	}
	ready := condition(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

// mark marks one pod. One that is gone, or whose name another has, is done.
func (m *marker) mark(ctx context.Context, pod *podcache.Pod) error {
	err := m.api.patchPodNotReady(ctx, pod, time.Now())
	switch {
	case apicall.IsNotFound(err), apicall.IsAnotherUID(err):
		return nil
	case err != nil:
		return fmt.Errorf("set the condition Ready of pod %s to False: %w", pod.Key(), err)
	}
	m.events.podNotReady(pod)
	return nil
}
