// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"maps"
	"sync"
	"time"
)

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
		if f.again.After(now) && (next.IsZero() || f.again.Before(next)) {
			next = f.again
		}
	}
	return next
}
