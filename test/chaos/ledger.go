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

// stream is one watch of a replica.
type stream struct {
	replica string
	run     int
	kind    callKind
	opened  time.Time
	closed  time.Time // zero while it is open
	stalls  []span    // while it was held up
}

// life is one run of a replica's process.
type life struct {
	replica string
	run     int
	began   time.Time
	stopped time.Time // when it was asked to end; zero if it was not
	ended   time.Time // zero while it lives
	how     string
}

// episode is a disruption of the whole cluster, from its beginning to its end.
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

// ledger is what this program did to the replicas, and what it saw of them meanwhile. It is safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	calls    []*call
	streams  []*stream
	lives    []*life
	episodes []episode
	reviews  []episode
	skews    []skew
	reigns   []reign
	injected map[faultKind]int
	holders  map[string]replicaRun

	stalled func(from, to time.Time) time.Duration // does not change
}

// replicaRun is one run of a replica.
type replicaRun struct {
	replica string
	run     int
}

func newLedger() *ledger {
	return &ledger{
		injected: map[faultKind]int{}, holders: map[string]replicaRun{},
		stalled: func(_, _ time.Time) time.Duration { return 0 },
	}
}

// note records a finished call.
func (l *ledger) note(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	if c.holder != "" {
		l.holders[c.holder] = replicaRun{c.replica, c.run}
	}
}

func (l *ledger) inject(kind faultKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.injected[kind]++
}

func (l *ledger) open(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, s)
}

func (l *ledger) close(s *stream, closed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.closed = closed
}

func (l *ledger) stall(s *stream, held span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.stalls = append(s.stalls, held)
}

// begin notes that a replica's process starts.
func (l *ledger) begin(replica string, run int, began time.Time) *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	started := &life{replica: replica, run: run, began: began}
	l.lives = append(l.lives, started)
	return started
}

// stop notes that the living process of a replica is asked to end.
func (l *ledger) stop(replica string, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, life := range l.lives {
		if life.replica == replica && life.ended.IsZero() && life.stopped.IsZero() {
			life.stopped = asked
		}
	}
}

func (l *ledger) end(life *life, ended time.Time, how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	life.ended, life.how = ended, how
}

func (l *ledger) tell(what string, from, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.episodes = append(l.episodes, episode{span: oracle.Between(from, to), what: what})
}

// obstruct notes that the webhook was in the way.
func (l *ledger) obstruct(what string, from, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reviews = append(l.reviews, episode{span: oracle.Between(from, to), what: what})
}

// wind notes that the clock of a replica is wrong by an offset from now on.
func (l *ledger) wind(replica string, offset time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.skews {
		if l.skews[i].replica == replica {
			l.skews[i].To = oracle.Earlier(l.skews[i].To, now)
		}
	}
	if offset != 0 {
		l.skews = append(l.skews, skew{span: oracle.Between(now, distantFuture), replica: replica, offset: offset})
	}
}

// holds notes who holds the Lease.
func (l *ledger) holds(holder string, seen time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(l.reigns) - 1; last < 0 || l.reigns[last].holder != holder {
		l.reigns = append(l.reigns, reign{from: seen, holder: holder})
	}
}

// leader returns the run of the replica that holds the Lease, if one of ours does.
func (l *ledger) leader() (replicaRun, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.reigns) == 0 {
		return replicaRun{}, false
	}
	run, ok := l.holders[l.reigns[len(l.reigns)-1].holder]
	return run, ok
}

// page is a copy of the ledger at one moment.
type page struct {
	calls    []*call // in the order in which they were received
	streams  []stream
	lives    []life
	episodes []episode
	reviews  []episode // while the webhook was in the way
	skews    []skew
	reigns   []reign
	injected map[faultKind]int
	holders  map[string]replicaRun

	stalled func(from, to time.Time) time.Duration // for how long the machine stalled
}

func (l *ledger) page() page {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := page{
		calls:    slices.Clone(l.calls),
		episodes: slices.Clone(l.episodes),
		reviews:  slices.Clone(l.reviews),
		skews:    slices.Clone(l.skews),
		reigns:   slices.Clone(l.reigns),
		injected: maps.Clone(l.injected),
		holders:  maps.Clone(l.holders),
		stalled:  l.stalled,
	}
	slices.SortStableFunc(p.calls, func(a, b *call) int { return a.received.Compare(b.received) })
	for _, s := range l.streams {
		copied := *s
		copied.stalls = slices.Clone(s.stalls)
		p.streams = append(p.streams, copied)
	}
	for _, life := range l.lives {
		p.lives = append(p.lives, *life)
	}
	return p
}
