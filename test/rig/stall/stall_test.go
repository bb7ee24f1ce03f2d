// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// calls take as long as a test says.
type calls struct{ take atomic.Int64 }

func (c *calls) last(take time.Duration) { c.take.Store(int64(take)) }

func (c *calls) call(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(c.take.Load())):
	}
	return ctx.Err()
}

func want(t *testing.T, m *Meter, from, to time.Time, least, most time.Duration) {
	t.Helper()
	if got := m.In(from, to); got < least || got > most {
		t.Errorf("stalls of %s between %s and %s, want between %s and %s", got, from, to, least, most)
	}
}

// TestACallThatTakesLongIsAStall, of the time in which it was awaited.
func TestACallThatTakesLongIsAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		c.last(time.Millisecond)
		m, from := Start(t.Context(), c.call), time.Now()
		bubble.Pass(time.Minute)
		want(t, m, from, time.Now(), 0, 0) // an idle machine does not stall
		c.last(3 * time.Second)
		bubble.Pass(every) // it has begun
		c.last(time.Millisecond)
		began := time.Now()
		bubble.Pass(2 * time.Second)
		want(t, m, from, time.Now(), 2*time.Second-every, 2*time.Second+every) // it is not over
		bubble.Pass(10 * time.Second)
		want(t, m, from, time.Now(), 3*time.Second-every, 3*time.Second-every)
		want(t, m, began.Add(time.Second), began.Add(2*time.Second), time.Second, time.Second)
		want(t, m, began.Add(5*time.Second), time.Now(), 0, 0)

		c.last(time.Hour) // it is never answered
		bubble.Pass(time.Second)
		never := time.Now()
		bubble.Pass(time.Minute)
		want(t, m, never, time.Now(), time.Minute-time.Second, time.Minute)
	})
}

func TestStallsAtTheSameTimeCountOnce(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	span := func(from, to time.Duration) oracle.Span { return oracle.Between(at.Add(from), at.Add(to)) }
	m := &Meter{stalls: []oracle.Span{
		span(4*time.Second, 5*time.Second), span(0, 2*time.Second),
		span(time.Second, 3*time.Second), span(time.Second, 2*time.Second),
	}}
	for _, test := range []struct{ from, to, want time.Duration }{
		{0, time.Minute, 4 * time.Second}, {-time.Minute, time.Minute, 4 * time.Second},
		{1500 * time.Millisecond, 4500 * time.Millisecond, 2 * time.Second}, {3 * time.Second, 4 * time.Second, 0},
		{time.Minute, time.Hour, 0}, {2 * time.Second, time.Second, 0},
	} {
		want(t, m, at.Add(test.from), at.Add(test.to), test.want, test.want)
	}
	if got := m.Allowed(at, at.Add(time.Minute)); got != Bound+4*time.Second {
		t.Errorf("%s is allowed, want the bound and 4 s", got)
	}
}

func TestATimerThatFiresLateIsAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, m := time.Now(), &Meter{}
		m.begin(&m.due, at)
		m.end(&m.due, at.Add(every)) // as on any machine
		m.begin(&m.due, at.Add(2*every))
		m.end(&m.due, at.Add(2*every+time.Second))
		want(t, m, at, at.Add(time.Minute), time.Second-every, time.Second-every)
	})
}
