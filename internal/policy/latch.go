// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"time"
)

// Latch is the memory of a breaker: it opens when too many pods are due, and closes when that has been over for as long
// as settle, so that it does not flap. The zero value is closed. If its state is lost, the number of due pods alone
// decides.
type Latch struct {
	// Tripped is when it opened; zero while it is closed.
	Tripped time.Time

	below time.Time // since when the number has been at most maxDue
	due   int
	most  int
	of    int
}

// Reopen brings back the state of a latch that was open when its number was last known.
func (l *Latch) Reopen(tripped time.Time) { l.Tripped = tripped }

// Count takes in how many pods are due, of so many that are selected, and reports whether the latch opened or closed.
func (l *Latch) Count(b *Breaker, due, selected int, now time.Time) (changed bool) {
	most, _ := b.MaxDue(selected)
	l.due, l.most, l.of = due, max(most, 1), selected
	switch {
	case l.due > l.most:
		l.below = time.Time{}
		if changed = l.Tripped.IsZero(); changed {
			l.Tripped = now
		}
	case l.Tripped.IsZero():
	case l.below.IsZero():
		l.below = now
		fallthrough
	default:
		if changed = !l.closes(b).After(now); changed {
			*l = Latch{due: l.due, most: l.most, of: l.of}
		}
	}
	return changed
}

func (l *Latch) closes(b *Breaker) time.Time { return l.below.Add(b.Settle) }

// Closes returns when an open latch closes if the number stays as it is; zero if it does not.
func (l *Latch) Closes(b *Breaker) time.Time {
	if l.Tripped.IsZero() || l.below.IsZero() {
		return time.Time{}
	}
	return l.closes(b)
}

// Open says why the latch is open; empty if it is closed.
func (l *Latch) Open() string {
	if l.Tripped.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d of %d selected pods are due, at most %d may be", l.due, l.of, l.most)
}
