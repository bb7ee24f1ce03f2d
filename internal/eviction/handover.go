// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// handover is the way from the first stage to the queue of the second.
type handover struct {
	opened   chan struct{}
	queue    priorityqueue.PriorityQueue[PodRequest]
	attempts *attempts
	slots    *slots
	turns    turns
}

func newHandover(attempts *attempts, slots *slots) *handover {
	return &handover{opened: make(chan struct{}), attempts: attempts, slots: slots}
}

// Start implements source.TypedSource: it is called once, when the second stage has a queue.
func (h *handover) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[PodRequest]) error {
	priorities, ok := queue.(priorityqueue.PriorityQueue[PodRequest])
	if !ok {
		return fmt.Errorf("the queue of due pods is a %T and has no priorities", queue)
	}
	h.queue = priorities
	close(h.opened)
	return nil
}

// String names the source in the log.
func (h *handover) String() string { return "pods that are due" }

// add hands over the due pods of a node, in their order. Nodes take turns, so that none has to wait for all pods of
// another.
//
// While evictions of the node hang, its most important pods take every other turn: what hangs may be waiting for one
// of them, such as the pods of a webhook.
func (h *handover) add(node string, due []leaving) {
	due = slices.DeleteFunc(due, func(l leaving) bool { return h.attempts.decidedAgain(l.request()) })
	if h.slots.hangs(node) {
		due = fromBothEnds(due)
	}
	rank := h.turns.rank(node, len(due))
	for i, l := range due {
		h.queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(turnOf(turn(rank+i), l.due, l.pod.Priority))}, l.request())
	}
}

// withdraw ends the eviction of a pod: if it has to leave again, that is another. It reports whether a try is being
// carried out; that is aborted, and finds out what became of the pod.
func (h *handover) withdraw(req PodRequest) bool {
	h.attempts.forget(req)
	return h.slots.withdraw(req)
}

// fromBothEnds takes the first, the last, the second, the last but one, and so on.
func fromBothEnds(due []leaving) []leaving {
	mixed := make([]leaving, 0, len(due))
	for first, last := 0, len(due)-1; first <= last; first, last = first+1, last-1 {
		mixed = append(mixed, due[first])
		if first < last {
			mixed = append(mixed, due[last])
		}
	}
	return mixed
}

// The queue of the second stage serves the greatest number first. From the highest bit down: what was never tried
// before what was; the turn of the node, or how often it failed; the due second; the pod priority, in steps of 65,536.
const (
	bitsOfPriority = 16
	bitsOfSecond   = 32
	lastTurn       = 1<<14 - 1
	retries        = 1 << 62
)

// turnOf orders a pod that was never tried.
func turnOf(turn int, due time.Time, podPriority int32) int {
	const half = 1 << (bitsOfPriority - 1)
	second := min(max(due.Unix(), 0), 1<<bitsOfSecond-1)
	step := int(podPriority>>bitsOfPriority) + half
	return ^(min(turn, lastTurn)<<(bitsOfSecond+bitsOfPriority) | int(second)<<bitsOfPriority | step)
}

// turnIn returns the turn that a priority has, unless it is a retry's.
func turnIn(priority int) (turn int, first bool) {
	return ^priority >> (bitsOfSecond + bitsOfPriority), priority >= -retries
}

// turnOfRetry orders a pod that failed: those that failed less often first.
func turnOfRetry(failures int, from time.Time) int { return turnOf(failures, from, 0) - retries }
