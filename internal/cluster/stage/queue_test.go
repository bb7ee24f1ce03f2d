// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// This runs in real time, because the goroutine scheduler decides when a worker asks for a request. With
// controller-runtime's own queue, about one round in 20 blocks.
func TestAQueueThatIsShutDownLetsAllWorkersGo(t *testing.T) {
	const rounds, workers, requests, handled = 200, 192, 200, 2000
	for round := range rounds {
		q := Queue(priorityqueue.New[int](""))
		var all sync.WaitGroup
		var count atomic.Int32
		busy := make(chan struct{})
		for range workers {
			all.Go(func() {
				for {
					request, _, shutdown := q.GetWithPriority()
					if shutdown {
						return
					}
					q.AddWithOpts(priorityqueue.AddOpts{After: time.Millisecond}, request)
					q.Done(request)
					if count.Add(1) == handled {
						close(busy)
					}
				}
			})
		}
		for request := range requests {
			q.Add(request)
		}
		<-busy
		q.ShutDown()
		gone := make(chan struct{})
		go func() { all.Wait(); close(gone) }()
		select {
		case <-gone:
		case <-time.After(30 * time.Second):
			t.Fatalf("round %d: workers are still there half a minute after the queue was shut down", round)
		}
	}
}

func TestAQueueThatIsShutDownHandsOutNothingMore(t *testing.T) {
	q := Queue(priorityqueue.New[int](""))
	q.Add(1)
	q.ShutDown()
	if request, shutdown := q.Get(); !shutdown {
		t.Errorf("it hands out %d", request)
	}
	q.ShutDown() // the controller may do so again
}
