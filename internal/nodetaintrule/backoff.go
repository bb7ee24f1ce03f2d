// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetaintrule

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// The backoff between tries of a call.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 30 * time.Second
	// forgottenAfter is longer than the pause after a refusal.
	forgottenAfter = 10 * time.Minute
)

// backoff says when what has failed may be tried again. One node that cannot be written holds up no other. Safe for
// concurrent use.
type backoff struct {
	limiter workqueue.TypedRateLimiter[string]

	mu    sync.Mutex
	until map[string]time.Time
}

func newBackoff() *backoff {
	return &backoff{
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstBackoff, lastBackoff),
		until:   map[string]time.Time{},
	}
}

// over reports whether something may be tried.
func (b *backoff) over(what string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.until[what].After(now)
}

func (b *backoff) failed(what string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until[what] = now.Add(b.limiter.When(what))
}

func (b *backoff) forget(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limiter.Forget(what)
	delete(b.until, what)
}

// next returns the next instant after now at which something may be tried again; zero: none.
func (b *backoff) next(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next time.Time
	for what, at := range b.until {
		switch {
		case at.After(now):
			next = earliest(next, at)
		case now.Sub(at) > forgottenAfter: // there is nothing to be tried any more
			b.limiter.Forget(what)
			delete(b.until, what)
		}
	}
	return next
}
