// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
)

// queue adds to the Backlog what it lacks: a clock, a lock, a way to wait, and a way to cancel. It is safe for
// concurrent use.
type queue struct {
	changed chan struct{} // signals that something may be tried before the instant that was last returned

	clock *timeline.Clock

	mu      sync.Mutex
	backlog *backlog.Backlog
	aborts  map[*backlog.Eviction]context.CancelCauseFunc // of the tries in flight
}

func newQueue(limits backlog.Lanes, clock *timeline.Clock, there func(types.UID) bool) *queue {
	return &queue{
		changed: make(chan struct{}, 1),
		clock:   clock,
		backlog: backlog.New(limits, there),
		aborts:  map[*backlog.Eviction]context.CancelCauseFunc{},
	}
}

// set replaces what is known about the pods that must leave a node. It cancels the tries in flight of pods that need
// not leave now. It returns the evictions that this ends, which are those that are not in flight.
func (q *queue) set(node string, leaving []backlog.Leaving) (ended []spared) {
	q.mu.Lock()
	defer q.mu.Unlock()
	stay, cancelled := q.backlog.Set(node, leaving, q.clock.Now())
	for _, e := range cancelled {
		q.abort(e)
	}
	for _, e := range stay {
		if _, inFlight := q.aborts[e]; !inFlight {
			ended = append(ended, spared{e.UID, e.Begun(), e.Due})
		}
	}
	q.wake()
	return ended
}

// spared is an eviction that has ended because the pod need no longer leave its node.
type spared struct {
	pod   types.UID
	begun bool
	due   time.Time
}

func (q *queue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// abort cancels the calls of a try. The caller holds the lock.
func (q *queue) abort(e *backlog.Eviction) {
	q.aborts[e](e.Cancelled())
}

// next waits for the next eviction and starts a try, whose calls the returned context can abort. It returns nil when
// ctx ends.
func (q *queue) next(ctx context.Context) (*try, context.Context) {
	for ctx.Err() == nil {
		t, trying, wait := q.begin(ctx)
		if t != nil {
			return t, trying
		}
		q.wait(ctx, wait)
	}
	return nil, ctx
}

// begin starts the next try, or returns how long there is nothing to do; a negative duration means until something
// changes.
func (q *queue) begin(ctx context.Context) (_ *try, _ context.Context, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	for _, e := range q.backlog.Excess(now) {
		q.abort(e)
	}
	e, again := q.backlog.Next(now)
	switch {
	case e == nil && again.IsZero():
		return nil, ctx, -1
	case e == nil:
		return nil, ctx, max(again.Sub(now), 0)
	}
	trying, abort := apicall.Abortable(ctx)
	q.aborts[e] = abort
	return newTry(e), trying, 0
}

func (q *queue) wait(ctx context.Context, wait time.Duration) {
	var over <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-q.changed:
	case <-over:
	}
}

// cancelled returns why a try that has ended was cancelled, if it was.
func (q *queue) cancelled(t *try) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.eviction.Cancelled()
}

// done ends a try with its outcome, and with what to remember until the next. It does nothing and returns false if the
// try was withdrawn and the outcome does not take that into account.
func (q *queue) done(t *try, outcome backlog.Outcome, withdrawn bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !withdrawn && errors.Is(t.eviction.Cancelled(), backlog.ErrWithdrawn) {
		return false
	}
	q.aborts[t.eviction](nil)
	delete(q.aborts, t.eviction)
	t.eviction.Memo = t.memo
	q.backlog.Done(t.eviction, outcome, q.clock.Now())
	q.wake()
	return true
}

// drainEvery is how often drain checks the tries in flight while the process ends.
const drainEvery = 100 * time.Millisecond

// drain waits until the tries in flight have ended, and cancels those that take longer than a limit. Pods can still be
// spared meanwhile, because decideNode decides about a node again.
func (q *queue) drain(ended <-chan struct{}, limit time.Duration, look func(node string)) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(drainEvery):
		}
		for node := range q.stop(limit) {
			look(node)
		}
	}
}

// stop cancels the tries that have taken longer than a limit, and returns the nodes of those in flight.
func (q *queue) stop(limit time.Duration) map[string]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.backlog.Stop(limit, q.clock.Now()) {
		q.abort(e)
	}
	nodes := map[string]bool{}
	for e := range q.aborts {
		nodes[e.Node] = true
	}
	return nodes
}

// stats counts the evictions, and returns the instant at which it counted them.
func (q *queue) stats() (_ backlog.Stats, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now = q.clock.Now()
	return q.backlog.Stats(now), now
}

// due returns the pods that are due, by node.
func (q *queue) due() map[string][]backlog.Leaving {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.backlog.Due(q.clock.Now())
}

// dueOn returns the pods of a node that are due.
func (q *queue) dueOn(node string) []backlog.Leaving {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.backlog.DueOn(node, q.clock.Now())
}
