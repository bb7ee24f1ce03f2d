// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// marker sets the condition Ready of the pods of a silent node to False, so that no Service sends them
// anything. Their own kubelet would do it, were it not silent.
type marker struct {
	nodes  *nodecache.Cache
	pods   *podcache.Cache
	api    api
	events *events

	mu     sync.Mutex
	failed map[string]failures // by node
}

// failures are the pods of a node that could not be marked.
type failures map[types.UID]failure

// failure is how often in a row a pod could not be marked, and when it is tried again.
type failure struct {
	count int
	again time.Time
}

// Reconcile marks the pods of one node. It comes back until all are done.
func (m *marker) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	before, after := m.failuresOf(req.Name), failures{}
	var failed []error
	for _, pod := range m.pods.OnNode(req.Name) {
		if !pod.Flags.Has(podcache.Ready) {
			continue
		}
		if !m.silent(req.Name) || apicall.Stopping(ctx) {
			break
		}
		known := before[pod.UID]
		if known.again.After(time.Now()) {
			after[pod.UID] = known
			continue
		}
		if err := m.mark(ctx, pod); err != nil {
			after[pod.UID] = known.next(err, time.Now())
			failed = append(failed, err)
		}
	}
	m.remember(req.Name, after)
	switch {
	case len(after) == 0 || apicall.Stopping(ctx):
		return reconcile.Result{}, nil
	case len(failed) > 0:
		return reconcile.Result{}, errors.Join(failed...) // the queue asks when the first pod is tried again
	}
	return reconcile.Result{RequeueAfter: max(time.Until(after.first()), time.Nanosecond)}, nil
}

// again returns when the first pod of a node that could not be marked is tried again.
func (m *marker) again(req NodeRequest) time.Time { return m.failuresOf(req.Name).first() }

func (m *marker) failuresOf(node string) failures {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed[node]
}

// remember notes which pods of a node could not be marked. It keeps nothing of a node without any.
func (m *marker) remember(node string, failed failures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(failed) == 0 {
		delete(m.failed, node)
		return
	}
	if m.failed == nil {
		m.failed = map[string]failures{}
	}
	m.failed[node] = failed
}

// first returns when the first pod is tried again.
func (f failures) first() time.Time {
	var first time.Time
	for _, failed := range f {
		if first.IsZero() || failed.again.Before(first) {
			first = failed.again
		}
	}
	return first
}

// firstMarkBackoff is the first backoff between tries to mark a pod.
const firstMarkBackoff = time.Second

// next returns the failure of another try. What the API server refuses has the longer backoff.
func (f failure) next(err error, now time.Time) failure {
	last := apicall.LastBackoff
	if apicall.Refused(err) {
		last = apicall.LastRefused
	}
	f.count++
	f.again = now.Add(apicall.Jittered(apicall.Doubled(firstMarkBackoff, f.count, last)))
	return f
}

func (m *marker) silent(name string) bool {
	node, ok := m.nodes.Get(name)
	if !ok {
		return false
	}
	ready := readiness.Condition(node.Node, corev1.NodeReady)
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
