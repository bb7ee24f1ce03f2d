// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"github.com/taintkeeper/taintkeeper/internal/instant"
)

// The backoff between tries of a call. It starts at the first value, and doubles up to the last.
const (
	FirstBackoff = 100 * time.Millisecond
	LastBackoff  = 30 * time.Second
	// LastRefused is the longest backoff after a call was refused by a policy or a webhook, or for lack of permission. The
	// next try is usually refused too.
	LastRefused = 5 * time.Minute
	// longestNamed bounds the wait that a 429 can ask for, because a proxy may have answered instead of the API server.
	longestNamed = 5 * time.Minute
)

// Backoff returns how long to wait for the next try of a call after a number of failures in a row, the latest with the
// given error: the time that the API server asks for, or else the backoff, with jitter. A 404 counts as a refusal:
// callers know that the object exists, so the 404 comes from a webhook.
func Backoff(failures int, err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && apierrors.IsTooManyRequests(err) {
		return min(time.Duration(max(seconds, 1))*time.Second, longestNamed)
	}
	last := LastBackoff
	if Refused(err) || apierrors.IsNotFound(err) {
		last = LastRefused
	}
	return jittered(Doubled(FirstBackoff, failures, last))
}

// Doubled returns the backoff after a number of failures in a row: first after one failure, doubled after each further
// one, up to last.
func Doubled(first time.Duration, failures int, last time.Duration) time.Duration {
	backoff := first
	for i := 1; i < failures && backoff < last; i++ {
		backoff *= 2
	}
	return min(backoff, last)
}

// jittered shortens a backoff by up to a fifth, so that calls that failed together are not retried together.
func jittered(backoff time.Duration) time.Duration {
	return backoff - rand.N(max(backoff/5, 1))
}

// Wait is the backoff of a controller's queue if the reconciler decides how long a failed request waits for the next
// try.
type Wait[request comparable] func(request) time.Duration

// When implements workqueue.TypedRateLimiter.
func (w Wait[request]) When(of request) time.Duration { return w(of) }

// Forget implements workqueue.TypedRateLimiter. The reconciler forgets.
func (w Wait[request]) Forget(request) {}

// NumRequeues implements workqueue.TypedRateLimiter. The reconciler counts.
func (w Wait[request]) NumRequeues(request) int { return 0 }

// RateLimiter returns the backoff of a controller's queue, from [FirstBackoff] to [LastBackoff] for each request.
func RateLimiter[request comparable]() workqueue.TypedRateLimiter[request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[request](FirstBackoff, LastBackoff)
}

// forgottenAfter is longer than any backoff.
const forgottenAfter = 10 * time.Minute

// Backoffs tells when things that failed may be tried again. Each has its own [Backoff], so one that cannot be written
// does not delay the others. The zero value is ready to use. It is safe for concurrent use.
type Backoffs[K comparable] struct {
	mu     sync.Mutex
	failed map[K]failure
	swept  time.Time
}

// failure records how often in a row something failed, and when it may be tried again.
type failure struct {
	count int
	again time.Time
}

// Fail notes that something failed.
func (b *Backoffs[K]) Fail(what K, err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.swept) > forgottenAfter { // Forget is not called for objects that are gone
		maps.DeleteFunc(b.failed, func(_ K, f failure) bool { return now.Sub(f.again) > forgottenAfter })
		b.swept = now
	}
	if b.failed == nil {
		b.failed = map[K]failure{}
	}
	count := b.failed[what].count + 1
	b.failed[what] = failure{count: count, again: now.Add(Backoff(count, err))}
}

// Forget notes that something did not fail, or need no longer be tried.
func (b *Backoffs[K]) Forget(what K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failed, what)
}

// Wait returns how long something may not be tried yet, or zero if it may be tried now.
func (b *Backoffs[K]) Wait(what K, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.failed[what].again.Sub(now), 0)
}

// Next returns the next instant after now at which anything may be tried again, or zero if nothing waits.
func (b *Backoffs[K]) Next(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next time.Time
	for _, f := range b.failed {
		if f.again.After(now) {
			next = instant.Next(next, f.again)
		}
	}
	return next
}
