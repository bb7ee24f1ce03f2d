// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"sync"
	"time"
)

// faultKind is a kind of fault that a proxy injects into a call or into a watch, the webhook into a
// review, the timekeeper into a clock, or a troublemaker into taints.
type faultKind string

const (
	delayedCall   faultKind = "call delayed"
	delayedAnswer faultKind = "answer delayed"
	droppedCall   faultKind = "call dropped"
	droppedAnswer faultKind = "answer dropped after the call was carried out"
	conflict      faultKind = "409"
	tooMany       faultKind = "429 with Retry-After"
	internalError faultKind = "500"
	unavailable   faultKind = "503"
	refusedWatch  faultKind = "watch refused"
	cutWatch      faultKind = "watch cut"
	cutAll        faultKind = "all watches cut at once"
	stalledWatch  faultKind = "watch stalled"
)

// What can happen to a review by the admission webhook.
const (
	slowReview    faultKind = "admission slow"
	hungReview    faultKind = "admission hanging"
	refusedReview faultKind = "admission refused"
)

var reviewFaults = []faultKind{slowReview, hungReview, refusedReview}

// What can happen to the wall clock of a replica.
const (
	clockAhead  faultKind = "clock of a replica set ahead"
	clockBehind faultKind = "clock of a replica set behind"
)

// What controllers do repeatedly to the taints of a node.
const (
	swapped   faultKind = "not-ready and unreachable swapped"
	rewritten faultKind = "taint rewritten with the current time"
)

// faultKinds are all kinds, in the order in which they are reported.
var faultKinds = []faultKind{
	delayedCall, delayedAnswer, droppedCall, droppedAnswer, conflict, tooMany, internalError, unavailable,
	cutWatch, cutAll, stalledWatch, refusedWatch, slowReview, hungReview, refusedReview,
	clockAhead, clockBehind, swapped, rewritten,
}

// plan is what will happen to one call. The zero value lets it through.
type plan struct {
	fault faultKind
	delay time.Duration // for the delays
	retry time.Duration // for a 429: whole seconds
}

// intensity is how frequent and how long faults are.
type intensity struct {
	name    string
	share   float64       // of the calls that something happens to
	longest time.Duration // delay of a call or an answer
	quiet   time.Duration // on average, between two faults of a proxy's watches; zero means no faults
}

var (
	calm  = intensity{name: "calm"}
	mild  = intensity{name: "mild", share: 0.12, longest: 400 * time.Millisecond, quiet: 3 * time.Second}
	storm = intensity{name: "storm", share: 0.4, longest: 2 * time.Second, quiet: 1200 * time.Millisecond}
)

// weather decides what happens to the calls of one replica. Safe for concurrent use.
type weather struct {
	mu     sync.Mutex
	random *rand.Rand
	now    intensity
}

func newWeather(random *rand.Rand) *weather { return &weather{random: random, now: calm} }

func (w *weather) set(next intensity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = next
}

func (w *weather) intensity() intensity {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// planFor draws what happens to a call. Election calls get faults only half as often, because a leader that loses its
// Lease exits, and a few periods without a leader are enough.
func (w *weather) planFor(c *call) plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	share := w.now.share
	if c.kind == electCall {
		share /= 2
	}
	if w.random.Float64() >= share {
		return plan{}
	}
	possible := faultsOf(c.kind)
	return plan{
		fault: possible[w.random.IntN(len(possible))],
		delay: time.Duration(w.random.Int64N(int64(w.now.longest)) + 1),
		retry: time.Duration(1+w.random.IntN(3)) * time.Second,
	}
}

// faultsOf returns the faults that a call can have. Only a change can get a conflict.
func faultsOf(kind callKind) []faultKind {
	all := []faultKind{delayedCall, delayedAnswer, droppedCall, droppedAnswer, tooMany, internalError, unavailable}
	switch kind {
	case deletePod, patchPod, patchNode, electCall:
		return append(all, conflict)
	case watchPods, watchNodes:
		return []faultKind{delayedCall, delayedAnswer, droppedCall, tooMany, internalError, unavailable}
	}
	return all
}

// disturbance is what happens next to the watches of a replica.
type disturbance struct {
	wait   time.Duration // until then
	fault  faultKind
	length time.Duration // of a fault that lasts
}

// next draws what happens next to the watches. It returns false while nothing does.
func (w *weather) next() (disturbance, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.quiet == 0 {
		return disturbance{}, false
	}
	kinds := []faultKind{cutWatch, cutWatch, cutAll, stalledWatch, refusedWatch}
	return disturbance{
		wait:   time.Duration((0.5 + w.random.Float64()) * float64(w.now.quiet)),
		length: 500*time.Millisecond + time.Duration(w.random.Int64N(int64(3500*time.Millisecond))),
		fault:  kinds[w.random.IntN(len(kinds))],
	}, true
}

// pick draws one of n.
func (w *weather) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}
