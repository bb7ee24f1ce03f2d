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

func (r *requests) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.Add(NodeRequest{name})
		return
	}
	if r.early == nil {
		r.early = map[string]struct{}{}
	}
	r.early[name] = struct{}{}
}

// drop forgets a node that is gone before the controller starts.
func (r *requests) drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.early, name)
}

func (r *requests) started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue != nil
}

// begin is the source of the tainter: it counts all nodes before the first is looked at.
type begin struct{ k *Keeper }

// String names the source in the log.
func (b begin) String() string { return "nodes that changed, fell silent or may be tainted" }

// Start implements source.TypedSource.
func (b begin) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[NodeRequest]) error {
	return b.k.looks.Start(ctx, queue)
}

// WaitForSync implements source.TypedSyncingSource.
func (b begin) WaitForSync(ctx context.Context) error {
	cache.WaitFor(ctx, "", b.k.nodes.cache, b.k.leases, b.k.pods)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// A standby has read nothing, and what cost the leader its place may have kept kubelets from renewing their leases:
	// those that have missed a renewal by now. A process that has just started has seen everybody just now.
	b.k.probes.cannotRead(time.Now().Add(-longBlindness))
	all := b.k.nodes.all()
	b.k.zones.prime(all, time.Now())
	for _, node := range all {
		b.k.looks.add(node.Name)
	}
	return nil
}
