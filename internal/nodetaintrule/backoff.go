// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetaintrule

import (
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
)

// forgottenAfter is longer than any backoff.
const forgottenAfter = 10 * time.Minute

// backoff says when what has failed may be tried again. One node that cannot be written holds up no other. Safe for
// concurrent use.
type backoff struct {
	mu     sync.Mutex
	failed map[string]failure
}

// failure is how often in a row something failed, and when it may be tried again.
type failure struct {
	count int
	again time.Time
}

func newBackoff() *backoff { return &backoff{failed: map[string]failure{}} }

// over reports whether something may be tried.
func (b *backoff) over(what string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.failed[what].again.After(now)
}

// fail notes that something failed.
func (b *backoff) fail(what string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := b.failed[what].count + 1
	again := now.Add(apicall.Doubled(apicall.FirstBackoff, count, apicall.LastBackoff))
	b.failed[what] = failure{count: count, again: again}
}

// forget notes that something did not fail, or needs not be tried any more.
func (b *backoff) forget(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failed, what)
}

// next returns the next instant after now at which something may be tried again; zero: none.
func (b *backoff) next(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next time.Time
	for what, failed := range b.failed {
		switch {
		case failed.again.After(now):
			next = earliest(next, failed.again)
		case now.Sub(failed.again) > forgottenAfter: // there is nothing to be tried any more
			delete(b.failed, what)
		}
	}
	return next
}
