// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Latch is the memory of a breaker: it opens when too many pods would leave at once, and closes once that has been over
// for the duration of settle, so that it does not flap. The zero value is closed. If its state is lost, the demand
// decides alone.
type Latch struct {
	// Tripped is when it opened; zero while it is closed.
	Tripped time.Time

	below time.Time // since when an open latch has counted at most maxDue

	due, most, of int  // the arguments of the last count: its demand, how many pods may leave at once, selected pods
	resumed       bool // whether the last count left out the pods that were due before resumedAt
}

// Count applies how many pods would leave now, which is the [Demand] of the breaker, and how many are selected. It
// reports whether the latch opened or closed.
func (l *Latch) Count(b *Breaker, due, selected int, now time.Time) (changed bool) {
	l.due, l.most, l.of = due, b.MaxDue(selected), selected
	l.resumed = !b.resumedAt.IsZero() && !b.resumedAt.After(now)
	open := !l.Tripped.IsZero()
	if l.due > l.most {
		l.below = time.Time{}
		if !open {
			l.Tripped = now
		}
		return !open
	}
	if open && l.below.IsZero() {
		l.below = now
	}
	if closes := l.Closes(b); closes.IsZero() || closes.After(now) {
		return false
	}
	l.Tripped, l.below = time.Time{}, time.Time{}
	return true
}

// Closes returns when an open latch closes if the number stays as it is; zero if it does not.
func (l *Latch) Closes(b *Breaker) time.Time {
	if l.below.IsZero() {
		return time.Time{}
	}
	return l.below.Add(b.Settle)
}

// Open returns why the latch is open; empty if it is closed.
func (l *Latch) Open() string {
	switch {
	case l.Tripped.IsZero():
		return ""
	case !l.below.IsZero():
		return l.count() + "; the breaker closes soon"
	}
	return fmt.Sprintf("%s, and the breaker allows %d", l.count(), l.most)
}

func (l *Latch) count() string {
	text := sentence.Part(l.due, l.of, "selected pod", "would leave", "would leave")
	if l.resumed {
		text += " (not counting pods that were due before resumedAt)"
	}
	return text
}
