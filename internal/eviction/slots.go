// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
)

const (
	// patience is how long an eviction may hold a slot. One that takes longer, because a webhook hangs or the
	// API server is slow, goes on without, so that evictions are never begun more slowly than this.
	patience = 250 * time.Millisecond
	// inFlightPerSlot bounds the evictions that are carried out at the same time, those without a slot included. With the
	// default that is 80. A call that hangs keeps a seat of the API server's priority level, which all service accounts of
	// kube-system share and which has 98 by default (workload-high): whoever takes them all holds up its own other calls,
	// and everybody else's.
	inFlightPerSlot = 5
)

var (
	// errNoRoom: too many evictions hang, and this one was aborted so that others are not held up.
	errNoRoom = errors.New("aborted, as it hung and too many other evictions hang")
	// errWithdrawn: the pod has no longer to leave, or not now.
	errWithdrawn = errors.New("aborted, as the pod has not to leave now")
)

// slots says which evictions are carried out now. A slot is for calls that are answered promptly: there are few, so
// that in a storm the first pod leaves early. An eviction that hangs goes on without one. When too many do, one of
// the node with the most is aborted for each that joins them. Safe for concurrent use.
type slots struct {
	free    chan struct{} // one element for each slot that is taken
	most    int           // evictions that may hang
	waiting atomic.Int32  // evictions that wait for our own rate limit

	mu      sync.Mutex
	open    map[PodRequest]*try
	hanging map[string]int // evictions without a slot, by node
	hang    func(node string)
}

func newSlots(count int) *slots {
	return &slots{
		free:    make(chan struct{}, count),
		most:    count * (inFlightPerSlot - 1),
		open:    map[PodRequest]*try{},
		hanging: map[string]int{},
		hang:    func(string) {},
	}
}

// try is one try to evict a pod.
type try struct {
	req     PodRequest
	attempt *attempt
	abort   context.CancelCauseFunc

	node     string
	failures int // of the tries before
	began    time.Time
	timer    *time.Timer // for as long as it has a slot
	hangs    bool        // it has none any more
	cause    error       // why it was aborted
	over     bool        // it cannot be aborted any more
}

// onHang sets the function that is called with the name of a node when the first of its evictions hangs.
func (s *slots) onHang(hang func(node string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = hang
}

// begin notes that a try begins, of a pod on the given node, and returns the context in which it can be aborted.
func (s *slots) begin(ctx context.Context, req PodRequest, node string, attempt *attempt) (*try, context.Context) {
	ctx, abort := apicall.Abortable(ctx)
	ctx = context.WithValue(ctx, waitingKey{}, &s.waiting)
	t := &try{req: req, attempt: attempt, abort: abort, node: node, failures: attempt.failures, began: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[req] = t
	t.timer = time.AfterFunc(patience, func() { s.outlast(t) })
	return t, ctx
}

// end says that a try is over, and returns why it was aborted, if it was.
func (s *slots) end(t *try) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.over = true
	return t.cause
}

// giveUp aborts a try. That the pod has not to leave now is the stronger reason. The caller holds the lock.
func (t *try) giveUp(cause error) {
	if !errors.Is(t.cause, errWithdrawn) {
		t.cause = cause
	}
	t.abort(cause)
}

// withdraw aborts the eviction of a pod if it is carried out now, and reports whether it is.
func (s *slots) withdraw(req PodRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.open[req]
	if !ok || t.over {
		return false
	}
	t.giveUp(errWithdrawn)
	return true
}

// hangs reports whether evictions of a node hang.
func (s *slots) hangs(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hanging[node] > 0
}

// waitingKey is of the value of a try's context that counts the evictions that wait for our own rate limit.
type waitingKey struct{}

// outlast takes the slot from a try that has held it for too long. While our own rate limit is what evictions wait
// for, it is not too long: whatever was begun in its place would only wait, too.
func (s *slots) outlast(t *try) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[t.req] != t || t.hangs {
		return
	}
	if s.waiting.Load() > 0 {
		t.timer.Reset(patience)
		return
	}
	if s.hangingInAll() >= s.most {
		s.victimFor(t).giveUp(errNoRoom)
	}
	t.hangs = true
	s.hanging[t.node]++
	if s.hanging[t.node] == 1 {
		s.hang(t.node)
	}
	s.put()
}

// full reports whether evictions of a node hang, and no more may: a retry of another of its pods waits then, rather
// than to be begun and aborted.
func (s *slots) full(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hanging[node] > 0 && s.hangingInAll() >= s.most
}

func (s *slots) hangingInAll() int {
	all := 0
	for _, count := range s.hanging {
		all += count
	}
	return all
}

// victimFor returns which eviction is aborted so that one more may hang: one of the node of which most would hang. Of
// these it is the one that has failed most often, as it will most likely fail again, and then the youngest, the new one
// itself first of all.
func (s *slots) victimFor(newcomer *try) *try {
	victim, most := newcomer, s.hanging[newcomer.node]+1
	for _, t := range s.open {
		if !t.hangs || t.cause != nil {
			continue
		}
		count := s.hanging[t.node]
		if t.node == newcomer.node {
			count++
		}
		if cmp.Or(cmp.Compare(count, most), cmp.Compare(t.failures, victim.failures), t.began.Compare(victim.began)) > 0 {
			victim, most = t, count
		}
	}
	return victim
}

// take waits for a slot.
func (s *slots) take() { s.free <- struct{}{} }

// put gives a slot back.
func (s *slots) put() { <-s.free }

// done gives back what an eviction still holds.
func (s *slots) done(req PodRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.open[req]
	if ok {
		t.timer.Stop()
		t.abort(nil)
		delete(s.open, req)
	}
	if !ok || !t.hangs {
		s.put()
		return
	}
	s.hanging[t.node]--
	if s.hanging[t.node] == 0 {
		delete(s.hanging, t.node)
	}
}

// queue is the second stage's: controller-runtime's priority queue, which hands out an eviction when a slot is free.
// It has no name and thereby no metrics of its own: controller-runtime's would have a label value per priority, and
// there are as many as due seconds.
type queue struct {
	priorityqueue.PriorityQueue[PodRequest]

	slots *slots
	turns *turns
}

func newQueue(backoff workqueue.TypedRateLimiter[PodRequest], slots *slots, turns *turns) queue {
	inner := priorityqueue.New("", func(o *priorityqueue.Opts[PodRequest]) { o.RateLimiter = backoff })
	return queue{PriorityQueue: inner, slots: slots, turns: turns}
}

// GetWithPriority waits for a slot and then for the next eviction. That is the order: whoever comes when a slot is
// free already, must come before those that waited for it.
func (q queue) GetWithPriority() (req PodRequest, priority int, shutdown bool) {
	q.slots.take()
	req, priority, shutdown = q.PriorityQueue.GetWithPriority()
	if shutdown {
		q.slots.put()
	}
	if turn, first := turnIn(priority); first && !shutdown {
		q.turns.serve(turn)
	}
	return req, priority, shutdown
}

// Get is GetWithPriority for those who do not ask for it.
func (q queue) Get() (req PodRequest, shutdown bool) {
	req, _, shutdown = q.GetWithPriority()
	return req, shutdown
}

// Done gives the slot back, and only then lets another worker have the same request.
func (q queue) Done(req PodRequest) {
	q.slots.done(req)
	q.PriorityQueue.Done(req)
}
