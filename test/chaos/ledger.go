// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// span is an instant that is known within bounds, or a time from one instant to another. Everything runs on one
// machine, so all instants are of one clock.
type span = oracle.Span

// distantFuture stands for the instant of anything that does not happen while this program runs.
var distantFuture = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)

// process is one run of a replica, counted from 1.
type process struct {
	replica string
	run     int
}

// life is from when to when a process ran.
type life struct {
	process

	began   time.Time
	stopped time.Time // when it was asked to end; zero if it was not
	ended   time.Time // zero while it lives
	how     string
}

// stream is one watch of a replica.
type stream struct {
	process

	kind   callKind
	opened time.Time
	closed time.Time // zero while it is open
	stalls []span    // while it was held up
}

// episode is a time during which something was out of order.
type episode struct {
	span

	what string
}

// skew is a time during which the wall clock of a replica was wrong by an offset.
type skew struct {
	span

	replica string
	offset  time.Duration
}

// reign is a time during which the Lease had one holder, empty for none. It ends with the next one.
type reign struct {
	from   time.Time
	holder string
}

// page is what this program did to the replicas, and what it saw of them meanwhile.
type page struct {
	calls    []*call // in the order in which they were received
	streams  []*stream
	lives    []*life
	episodes []episode // disruptions of the whole cluster
	reviews  []episode // while the webhook was in the way
	skews    []skew
	reigns   []reign
	holders  map[string]process
	injected map[faultKind]int

	stalled func(from, to time.Time) time.Duration // for how long the machine stalled
}

// ledger is the page that is being written. It is safe for concurrent use.
type ledger struct {
	mu sync.Mutex
	page
}

func newLedger() *ledger {
	return &ledger{page: page{
		injected: map[faultKind]int{}, holders: map[string]process{},
		stalled: func(_, _ time.Time) time.Duration { return 0 },
	}}
}

// write changes the page.
func (l *ledger) write(change func(*page)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.page)
}

// read returns a copy of the page.
func (l *ledger) read() page {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.page
	p.calls, p.streams, p.lives = slices.Clone(l.calls), nil, nil
	slices.SortStableFunc(p.calls, func(a, b *call) int { return a.received.Compare(b.received) })
	for _, s := range l.streams {
		copied := *s
		copied.stalls = slices.Clone(s.stalls)
		p.streams = append(p.streams, &copied)
	}
	for _, life := range l.lives {
		copied := *life
		p.lives = append(p.lives, &copied)
	}
	p.episodes, p.reviews = slices.Clone(l.episodes), slices.Clone(l.reviews)
	p.skews, p.reigns = slices.Clone(l.skews), slices.Clone(l.reigns)
	p.holders, p.injected = maps.Clone(l.holders), maps.Clone(l.injected)
	return p
}

// inject counts a fault.
func (l *ledger) inject(kind faultKind) { l.write(func(p *page) { p.injected[kind]++ }) }

// stop notes that the living process of a replica is asked to end.
func (l *ledger) stop(replica string, asked time.Time) {
	l.write(func(p *page) {
		for _, life := range p.lives {
			if life.replica == replica && life.ended.IsZero() && life.stopped.IsZero() {
				life.stopped = asked
			}
		}
	})
}

// wind notes that the clock of a replica is wrong by an offset from now on.
func (l *ledger) wind(replica string, offset time.Duration, now time.Time) {
	l.write(func(p *page) {
		for i := range p.skews {
			if p.skews[i].replica == replica {
				p.skews[i].To = oracle.Earlier(p.skews[i].To, now)
			}
		}
		if offset != 0 {
			p.skews = append(p.skews, skew{span: oracle.Between(now, distantFuture), replica: replica, offset: offset})
		}
	})
}

// holds notes who holds the Lease.
func (l *ledger) holds(holder string, seen time.Time) {
	l.write(func(p *page) {
		if last := len(p.reigns) - 1; last < 0 || p.reigns[last].holder != holder {
			p.reigns = append(p.reigns, reign{from: seen, holder: holder})
		}
	})
}

// leader returns the process that holds the Lease, if one of ours does.
func (l *ledger) leader() (leader process, ok bool) {
	l.write(func(p *page) {
		if last := len(p.reigns) - 1; last >= 0 {
			leader, ok = p.holders[p.reigns[last].holder]
		}
	})
	return leader, ok
}
