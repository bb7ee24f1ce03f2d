// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// requests is the way of a node's name into the queue of a controller; those that come before it starts
// wait for it.
type requests struct {
	mu    sync.Mutex
	early map[string]struct{}
	queue workqueue.TypedRateLimitingInterface[NodeRequest]
}

// Start implements source.TypedSource.
func (r *requests) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[NodeRequest]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
	for name := range r.early {
		queue.Add(NodeRequest{name})
	}
	r.early = nil
	return nil
}

// String names the source in the log.
func (r *requests) String() string { return "nodes to look at" }

func (r *requests) add(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if r.queue != nil {
			r.queue.Add(NodeRequest{name})
			continue
		}
		if r.early == nil {
			r.early = map[string]struct{}{}
		}
		r.early[name] = struct{}{}
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

// gone tells of a node that is gone. Before the controller starts nothing is known of it that would have to be
// forgotten.
func (r *requests) gone(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.Add(NodeRequest{name})
	}
	delete(r.early, name)
}

func (r *requests) started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue != nil
}

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

// begin is the source of the reconciler: all nodes are counted before the first is looked at.
type begin struct{ k *Keeper }

// String names the source in the log.
func (b begin) String() string { return "nodes that changed, fell silent or may be tainted" }

// Start implements source.TypedSource.
func (b begin) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[NodeRequest]) error {
	return b.k.looks.Start(ctx, queue)
}

// WaitForSync implements source.TypedSyncingSource.
func (b begin) WaitForSync(ctx context.Context) error {
	cache.WaitFor(ctx, "", b.k.nodes, b.k.leases, b.k.pods)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.k.lead(time.Now())
	return nil
}
