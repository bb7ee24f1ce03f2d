// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"sync"
	"time"
)

// podsPerTurn is how many pods of a node are evicted before it is another node's turn. One live read of the node serves
// for them all, which it would not if nodes took turns pod by pod.
const podsPerTurn = DefaultConcurrentEvictions

// turns lets nodes take turns while there are more due pods than slots: by start-time fair queueing, whose virtual
// clock is the turn of the pod that was begun last. Safe for concurrent use.
type turns struct {
	mu    sync.Mutex
	clock int
	begun map[string]int // the rank of the next pod, of each node that has pods to come
	last  time.Time      // when a first try was begun
}

// rank returns the rank of the first of the pods of a node that were never tried; the second's is one more. A node that
// had none until now begins where the others are. With no pods to come it is forgotten.
func (t *turns) rank(node string, pods int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pods == 0 {
		delete(t.begun, node)
		if len(t.begun) == 0 {
			t.clock = 0
		}
		return 0
	}
	if _, ok := t.begun[node]; !ok {
		if t.begun == nil {
			t.begun = map[string]int{}
		}
		t.begun[node] = t.clock * podsPerTurn
	}
	return t.begun[node]
}

// serve notes that a pod of a turn is the next.
func (t *turns) serve(turn int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock = turn
}

// begin notes that the first try of a pod of a node begins.
func (t *turns) begin(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Now()
	if _, ok := t.begun[node]; ok {
		t.begun[node]++
	}
}

// lastBegun returns when the first try of a pod was begun last.
func (t *turns) lastBegun() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// turn is the turn of the pod of a given rank. The first pod of a node is one by itself, so that each node loses one
// soon.
func turn(rank int) int { return (rank + podsPerTurn - 1) / podsPerTurn }
