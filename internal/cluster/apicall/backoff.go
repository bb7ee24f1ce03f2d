// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
)

// The backoff between tries of a call. It begins with the first, and doubles up to the last.
const (
	FirstBackoff = 100 * time.Millisecond
	LastBackoff  = 30 * time.Second
	// LastRefused is the last if a call is refused: by a policy, a webhook, or because a right is missing. The next try
	// is usually refused too.
	LastRefused = 5 * time.Minute
	// longestNamed bounds the wait that a 429 can name: a proxy may have answered instead of the API server.
	longestNamed = 5 * time.Minute
)

// Backoff is how long to wait for the next try of a call after so many failures in a row, of which the given error is
// the latest: the time that the API server names, or else the backoff, with jitter. A 404 counts as a refusal: who asks
// for a backoff knows that the object is there, so it is a webhook's.
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

// Doubled is the backoff after so many failures in a row: the first after one, and double the one before after each
// that follows, up to the last.
func Doubled(first time.Duration, failures int, last time.Duration) time.Duration {
	backoff := first
	for i := 1; i < failures && backoff < last; i++ {
		backoff *= 2
	}
	return min(backoff, last)
}

// jittered takes up to a fifth off a backoff, so that what failed together is not tried again together.
func jittered(backoff time.Duration) time.Duration {
	return backoff - rand.N(max(backoff/5, 1))
}

// Wait is the backoff of a controller's queue where the reconciler says how long a request that failed waits for the
// next try.
type Wait[request comparable] func(request) time.Duration

// When implements workqueue.TypedRateLimiter.
func (w Wait[request]) When(of request) time.Duration { return w(of) }

// Forget implements workqueue.TypedRateLimiter. It is the reconciler that forgets.
func (w Wait[request]) Forget(request) {}

// NumRequeues implements workqueue.TypedRateLimiter. It is the reconciler that counts.
func (w Wait[request]) NumRequeues(request) int { return 0 }

// RateLimiter returns the backoff of a controller's queue, from [FirstBackoff] to [LastBackoff] for each request.
func RateLimiter[request comparable]() workqueue.TypedRateLimiter[request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[request](FirstBackoff, LastBackoff)
}
