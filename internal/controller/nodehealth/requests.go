// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// requests passes the names of nodes to the queue of a controller. Names that come before the queue exists are dropped,
// because a controller begins with all nodes.
type requests struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[NodeRequest]]
}

func (r *requests) add(names ...string) {
	queue := r.queue.Load()
	if queue == nil {
		return
	}
	for _, name := range names {
		(*queue).Add(NodeRequest{name})
	}
}

// addAfter asks for a look at a node after at most the given wait, or for none if the wait is zero.
func (r *requests) addAfter(name string, wait time.Duration) {
	if queue := r.queue.Load(); queue != nil && wait > 0 {
		(*queue).AddAfter(NodeRequest{name}, wait)
	}
}

func (r *requests) started() bool { return r.queue.Load() != nil }

// source is the source of a controller's requests.
type source struct {
	*requests

	begin func(context.Context) error // requests all nodes, once they are known
}

// String names the source in the log.
func (s source) String() string { return "nodes that changed, fell silent or may be tainted" }

// Start implements source.TypedSource.
func (s source) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[NodeRequest]) error {
	s.queue.Store(&queue)
	return nil
}

// WaitForSync implements source.TypedSyncingSource. Nothing is reconciled before it returns.
func (s source) WaitForSync(ctx context.Context) error { return s.begin(ctx) }
