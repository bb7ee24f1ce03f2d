// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"math"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Queue is controller-runtime's priority queue, but for its end: that is shut down when no worker waits for a request any
// more. One that waits then goes without what is just being handed to it, and the queue stands still for ever
// (kubernetes-sigs/controller-runtime#3538, mended in 0.25).
func Queue[request comparable](inner priorityqueue.PriorityQueue[request]) priorityqueue.PriorityQueue[request] {
	return &queue[request]{PriorityQueue: inner}
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
	q.closing = true
	q.letGo()
}

// letGo hands something to the next worker that waits, or ends the queue if none does. The caller holds the lock.
func (q *queue[request]) letGo() {
	if q.waiting == 0 {
		q.PriorityQueue.ShutDown()
		return
	}
	var nothing request
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(math.MaxInt)}, nothing)
}
