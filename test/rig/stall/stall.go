// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stall measures how long a busy machine keeps tests and the API server waiting. A test that requires
// something within a time allows [Bound], and adds the stalls of that time. So its verdict is about Taintkeeper, and
// not about what else the machine does.
package stall

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

const (
	// Bound is how late anything may be that is measured in real time, plus the stalls. It is the only such allowance of
	// the tests. Every known defect causes a longer delay.
	Bound = 4 * time.Second
	// TooLong is a total stall after which a measurement says nothing: what was measured must be done again.
	TooLong = 5 * time.Second

	// every is how often the meter looks. By how much more than this a timer fires late, or a call takes, is a stall.
	every = 50 * time.Millisecond
	// callLimit ends a call that an API server that was stopped will never answer.
	callLimit = 5 * time.Second
)

// Meter remembers all stalls since it was started. Its methods are safe for concurrent use.
type Meter struct {
	mu     sync.Mutex
	stalls []oracle.Span
	// What is still going on: when the timer should fire, and when the call began.
	due, called time.Time
}

// Start measures until the context ends: when a timer fires, and how long a call takes, which should read one object of
// the API server. Whether the call succeeds does not matter, since an API server that was ended answers at once.
func Start(ctx context.Context, call func(context.Context) error) *Meter {
	m := &Meter{}
	go m.watchTimer(ctx)
	go m.watchCalls(ctx, call)
	return m
}

func (m *Meter) watchTimer(ctx context.Context) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		m.begin(&m.due, time.Now().Add(every))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		m.end(&m.due, time.Now())
		timer.Reset(every)
	}
}

func (m *Meter) watchCalls(ctx context.Context, call func(context.Context) error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		m.begin(&m.called, time.Now())
		limited, cancel := context.WithTimeout(ctx, callLimit)
		_ = call(limited)
		cancel()
		m.end(&m.called, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// begin notes since when something is awaited.
func (m *Meter) begin(since *time.Time, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*since = at
}

// end remembers a wait, as far as it was longer than on an idle machine.
func (m *Meter) end(since *time.Time, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if over := since.Add(every); at.After(over) {
		m.stalls = append(m.stalls, oracle.Between(over, at))
	}
	*since = time.Time{}
}

// In returns for how long something stalled between two instants, which is never longer than the time between them. It
// counts a stall that is not over yet, and simultaneous stalls once.
func (m *Meter) In(from, to time.Time) time.Duration {
	total, counted := time.Duration(0), from
	for _, s := range m.all() {
		begin, end := oracle.Later(s.From, counted), oracle.Earlier(s.To, to)
		if end.After(begin) {
			total += end.Sub(begin)
			counted = end
		}
	}
	return total
}

// all returns the stalls in the order in which they began.
func (m *Meter) all() []oracle.Span {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, now := slices.Clone(m.stalls), time.Now()
	for _, since := range []time.Time{m.due, m.called} {
		if over := since.Add(every); !since.IsZero() && now.After(over) {
			all = append(all, oracle.Between(over, now))
		}
	}
	slices.SortFunc(all, func(a, b oracle.Span) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
	return all
}

// Allowed returns how late something may be that should have happened at an instant and was seen at another.
func (m *Meter) Allowed(due, seen time.Time) time.Duration { return Bound + m.In(due, seen) }
