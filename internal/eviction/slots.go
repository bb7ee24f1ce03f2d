// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/stage"
)

const (
	// patience is how long an eviction may hold a slot. One that takes longer, because a webhook hangs or the
	// API server is slow, goes on without, so that evictions are never begun more slowly than this.
	patience = 250 * time.Millisecond
	// inFlightPerSlot bounds the evictions that are carried out at the same time, those without a slot included. With the
	// default that is 192: as many as it takes for 1,000 pods to leave within a minute where every call takes 2 s.
	inFlightPerSlot = 12
	// inFlightWhileStuck is the least that this bound falls to while some of them are stuck: each of these takes the room
	// of three. With the default it is 80. A call that nobody answers keeps a seat of the API server's priority level,
	// which all service accounts of kube-system share and which has 98 by default (workload-high): whoever takes them all
	// holds up its own other calls, and everybody else's.
	inFlightWhileStuck = 5
	// stuckAfter is how long one step of an eviction may take: to confirm the taints by a live read or two, to set the
	// condition, or to delete. An API server that is only slow has answered by then.
	stuckAfter = 4 * time.Second
	// stuckFor is for how long as many as were stuck may be stuck again.
	stuckFor = time.Minute
	// lookForStuck is how often it is found out how many are stuck.
	lookForStuck = time.Second
)

var (
	// errNoRoom: too many evictions hang, and this one was aborted so that others are not held up.
	errNoRoom = errors.New("aborted, as it hung and too many other evictions hang")
	// errWithdrawn: the pod has no longer to leave, or not now.
	errWithdrawn = errors.New("aborted, as the pod has not to leave now")
)

// slots says which evictions are carried out now. A slot is for calls that are answered promptly: there are few, so
// that in a storm the first pod leaves early. An eviction that hangs goes on without one. When too many do, those of
// the node with the most are aborted. Safe for concurrent use.
type slots struct {
	free    chan struct{} // one element for each slot that is taken
	waiting atomic.Int32  // evictions that wait for our own rate limit

	mu      sync.Mutex
	open    map[PodRequest]*try
	hanging map[string]int // evictions without a slot, by node
	stuckAt []time.Time    // by i: when more than i were stuck at once last; of the last minute
	hang    func(node string)
}

func newSlots(count int) *slots {
	return &slots{
		free:    make(chan struct{}, count),
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
	stepped  time.Time   // when its present step began
	timer    *time.Timer // calls outlast
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
	now := time.Now()
	t := &try{req: req, attempt: attempt, abort: abort, node: node, failures: attempt.failures, began: now, stepped: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[req] = t
	t.timer = time.AfterFunc(patience, func() { s.outlast(t) })
	return t, ctx
}

// step notes that the next step of a try begins.
func (s *slots) step(t *try) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.stepped = time.Now()
}

// end says that a try is over, and returns why it was aborted, if it was.
func (s *slots) end(t *try) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.over = true
	t.attempt.hung = t.hangs || errors.Is(t.cause, errNoRoom)
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
	if s.open[t.req] != t {
		return
	}
	if t.hangs {
		s.makeRoom()
		t.timer.Reset(lookForStuck)
		return
	}
	if s.waiting.Load() > 0 {
		t.timer.Reset(patience)
		return
	}
	t.hangs = true
	s.makeRoom()
	if errors.Is(t.cause, errNoRoom) { // it ends now, and gives its slot back, unless it is withdrawn in this instant
		t.hangs = false
		t.timer.Reset(patience)
		return
	}
	s.hanging[t.node]++
	if s.hanging[t.node] == 1 {
		s.hang(t.node)
	}
	t.timer.Reset(lookForStuck)
	s.put()
}

// full reports whether evictions of a node hang, and no more may: another of its pods that has hung waits then, rather
// than to be tried and aborted.
func (s *slots) full(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hanging[node] > 0 && s.hangingInAll() >= s.room()
}

func (s *slots) hangingInAll() int {
	all := 0
	for _, count := range s.hanging {
		all += count
	}
	return all
}

// room returns how many evictions may hang: fewer when some are stuck. One that waits for our own rate limit is not,
// and one that is aborted ends by itself.
func (s *slots) room() int {
	now, stuck := time.Now(), 0
	for _, t := range s.open {
		if t.cause == nil && s.waiting.Load() == 0 && now.Sub(t.stepped) > stuckAfter {
			stuck++
		}
	}
	s.stuckAt = append(s.stuckAt, make([]time.Time, max(stuck-len(s.stuckAt), 0))...)
	for i := range stuck {
		s.stuckAt[i] = now
	}
	for last := len(s.stuckAt) - 1; last >= 0 && now.Sub(s.stuckAt[last]) >= stuckFor; last-- { // the latest come first
		s.stuckAt = s.stuckAt[:last]
	}
	slots := cap(s.free)
	return max(slots*(inFlightPerSlot-1)-2*len(s.stuckAt), slots*(inFlightWhileStuck-1))
}

// makeRoom aborts evictions until no more hang than may: each time one of the node of which most hang. Of these it is
// the one that has failed most often, as it will most likely fail again, and then the youngest.
func (s *slots) makeRoom() {
	var hang []*try
	ofNode := map[string]int{}
	for _, t := range s.open {
		if t.hangs && !errors.Is(t.cause, errNoRoom) {
			hang = append(hang, t)
			ofNode[t.node]++
		}
	}
	surplus := len(hang) - s.room()
	hang = slices.DeleteFunc(hang, func(t *try) bool { return t.cause != nil })
	for ; surplus > 0 && len(hang) > 0; surplus-- {
		victim := slices.MaxFunc(hang, func(a, b *try) int {
			ofMost := cmp.Compare(ofNode[a.node], ofNode[b.node])
			return cmp.Or(ofMost, cmp.Compare(a.failures, b.failures), a.began.Compare(b.began))
		})
		victim.giveUp(errNoRoom)
		ofNode[victim.node]--
		hang = slices.DeleteFunc(hang, func(t *try) bool { return t == victim })
	}
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
	return queue{PriorityQueue: stage.Queue(inner), slots: slots, turns: turns}
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
