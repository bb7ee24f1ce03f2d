// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// The process is told to end while evictions come and go. Real time: what happens is up to the scheduler.
func TestTheQueueLetsAllWorkersGoWhenItIsShutDown(t *testing.T) {
	for round := range 300 {
		slots := newSlots(DefaultConcurrentEvictions)
		q := newQueue(nil, slots, &turns{})
		var workers sync.WaitGroup
		for range DefaultConcurrentEvictions * inFlightPerSlot {
			workers.Go(func() {
				for {
					req, _, shutdown := q.GetWithPriority()
					if shutdown {
						return
					}
					q.AddWithOpts(priorityqueue.AddOpts{After: time.Millisecond}, req)
					q.Done(req)
				}
			})
		}
		for i := range 200 {
			q.Add(PodRequest{Name: fmt.Sprint(i)})
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // see above
		q.ShutDown()
		gone := make(chan struct{})
		go func() { workers.Wait(); close(gone) }()
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Fatalf("round %d: workers are still there 10 s after the queue was shut down", round)
		}
	}
}
