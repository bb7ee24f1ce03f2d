// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// requests is the way of a node's name into the queue of a controller. Those that come before the queue are dropped: a
// controller begins with all nodes.
type requests struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[NodeRequest]
}

func (r *requests) add(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if r.queue != nil {
			r.queue.Add(NodeRequest{name})
		}
	}
}

// addAfter asks for a look at a node in a while at most; zero: not for any.
func (r *requests) addAfter(name string, wait time.Duration) {
	if wait == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.AddAfter(NodeRequest{name}, wait)
}

func (r *requests) started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue != nil
}

// source is what a controller takes its requests from.
type source struct {
	*requests

	begin func(context.Context) error // asks for all nodes, once they are known
}

// String names the source in the log.
func (s source) String() string { return "nodes that changed, fell silent or may be tainted" }

// Start implements source.TypedSource.
func (s source) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[NodeRequest]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	return nil
}

// WaitForSync implements source.TypedSyncingSource. Nothing is reconciled before it returns.
func (s source) WaitForSync(ctx context.Context) error { return s.begin(ctx) }

// awaiting are the nodes about which something can be done once there is an echo. Safe for concurrent use.
type awaiting struct {
	mu    sync.Mutex
	names []string
}

func (a *awaiting) add(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = append(a.names, name)
}

// take returns them, and has none from then on.
func (a *awaiting) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.names
	a.names = nil
	return names
}
