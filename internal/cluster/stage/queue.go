// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"math"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Queue is controller-runtime's priority queue with another shutdown: it shuts down only when no worker waits for a
// request. Otherwise a worker may end without taking the request that is being handed to it, and the queue blocks
// forever (kubernetes-sigs/controller-runtime#3538). Remove it with controller-runtime 0.25, which is for Kubernetes
// 1.37.
func Queue[request comparable](inner priorityqueue.PriorityQueue[request]) priorityqueue.PriorityQueue[request] {
	return &queue[request]{PriorityQueue: inner}
}

// newQueue makes the queue of a stage that has none of its own.
func newQueue[request comparable](
	name string, backoff workqueue.TypedRateLimiter[request],
) workqueue.TypedRateLimitingInterface[request] {
	return Queue(priorityqueue.New(name, func(o *priorityqueue.Opts[request]) { o.RateLimiter = backoff }))
}

type queue[request comparable] struct {
	priorityqueue.PriorityQueue[request]

	mu      sync.Mutex
	waiting int // workers
	closing bool
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *queue[request]) GetWithPriority() (req request, priority int, shutdown bool) {
	if !q.wait() {
		return req, 0, true
	}
	req, priority, _ = q.PriorityQueue.GetWithPriority()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting--
	if q.closing {
		q.Done(req)
		q.letGo()
	}
	return req, priority, q.closing
}

// Get implements priorityqueue.PriorityQueue.
func (q *queue[request]) Get() (req request, shutdown bool) {
	req, _, shutdown = q.GetWithPriority()
	return req, shutdown
}

// wait reports whether a worker may wait for a request.
func (q *queue[request]) wait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closing {
		q.waiting++
	}
	return !q.closing
}

// ShutDown implements priorityqueue.PriorityQueue.
func (q *queue[request]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closing {
		q.closing = true
		q.letGo()
	}
}

// letGo hands an item to the next waiting worker, or shuts the queue down if none waits. The caller holds the lock.
func (q *queue[request]) letGo() {
	if q.waiting == 0 {
		q.PriorityQueue.ShutDown()
		return
	}
	var nothing request
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(math.MaxInt)}, nothing)
}
