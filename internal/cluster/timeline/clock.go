// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline is the clock for Taintkeeper's deadlines: the monotonic clock of this process, which cannot be
// set. Everything that this process saw happen is on it exactly, and needs no other clock.
//
// Only what the API server recorded before this process looked (the timeAdded of a taint, the binding of a pod) must
// be dated, once, when it is first seen. For that the clock that is behind is used: the API server's, known from the
// Date of its answers, or this machine's. A wrong clock can therefore make an eviction late, and early only in the
// case that docs/concepts.md names. Setting a clock changes nothing.
package timeline

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Clock is the timeline of a process, with what is known about the API server's clock. All parts of a process share
// one. The zero value is ready. It is safe for concurrent use.
type Clock struct {
	// Wall is this machine's clock, which can be wrong and can be set. The default is time.Now.
	Wall func() time.Time

	mu     sync.Mutex
	begun  time.Time     // with a monotonic reading
	ticked time.Time     // the newest instant of the monotonic clock that was read
	now    time.Time     // the instant of the timeline at that moment
	fast   time.Duration // how much the monotonic clock has been too fast in total
	debt   time.Duration // how much of that the timeline has not been slowed by yet
	server server
}

// Now returns the current instant of the timeline. It never goes back, and never stops. Instants of the timeline have
// no monotonic reading of their own. Compare them only with each other, not with time.Now, and do not use time.Since.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.tick()
	return now
}

// Since returns how long ago an instant of the timeline was.
func (c *Clock) Since(instant time.Time) time.Duration { return c.Now().Sub(instant) }

// tick returns the current instants of the timeline and of the monotonic clock. It corrects the timeline gradually by
// as much as the monotonic clock has been too fast. The caller holds c.mu.
func (c *Clock) tick() (now, monotonic time.Time) {
	monotonic = c.monotonic(time.Now())
	if c.ticked.IsZero() {
		c.ticked, c.now = monotonic, monotonic
	}
	passed := monotonic.Sub(c.ticked)
	back := min(c.debt, passed/slew)
	c.debt -= back
	c.now, c.ticked = c.now.Add(passed-back), monotonic
	return c.now, monotonic
}

// monotonic returns an instant of the monotonic clock without its reading, so that comparisons never fall back to the
// wall clock. The caller holds c.mu.
func (c *Clock) monotonic(at time.Time) time.Time {
	if c.begun.IsZero() {
		c.begun = at
	}
	return c.begun.Round(0).Add(at.Sub(c.begun))
}

func (c *Clock) wall() time.Time {
	if c.Wall != nil {
		return c.Wall().Round(0)
	}
	return time.Now().Round(0)
}

// See returns the sight of something that this process sees now. With it, what the API server has recorded can be
// dated, but only once a Date has been received, because one clock alone is not trusted.
func (c *Clock) See() verdict.Sight {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, monotonic := c.tick()
	seen := verdict.Sight{At: now, Latest: c.wall()}
	if c.server.heard() {
		from, _ := c.server.known.bounds(monotonic)
		seen.Earliest, seen.Behind = from, instant.Earlier(from, seen.Latest)
		_, seen.Latest = c.server.widest(monotonic)
	}
	return seen
}

// Latest returns the latest time that the API server's clock can show, which is the time to write. Before a Date was
// received, it is this machine's clock.
func (c *Clock) Latest() time.Time { return c.See().Latest }

// Ahead returns the least and the most by which the API server's clock can be ahead of the timeline, including a
// recently contradicted server's. Before a Date was received, it uses this machine's clock.
func (c *Clock) Ahead() (least, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, monotonic := c.tick()
	if !c.server.heard() {
		ahead := c.wall().Sub(now)
		return ahead, ahead
	}
	from, to := c.server.widest(monotonic)
	return from.Sub(now), to.Sub(now)
}

// Shown returns what this machine's clock shows at an instant of the timeline, for people to read.
func (c *Clock) Shown(instant time.Time) time.Time { return instant.Add(c.wall().Sub(c.Now())) }

// Offset returns the least by which the API server's clock is ahead of this machine's; negative if it is behind, and
// zero if they agree as far as is known, or if no Date was received.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.server.heard() {
		return 0
	}
	from, to := c.server.known.bounds(c.monotonic(time.Now()))
	now := c.wall()
	switch {
	case now.Before(from):
		return from.Sub(now)
	case now.After(to):
		return to.Sub(now)
	}
	return 0
}

// Heard notes the Date of an answer that has just arrived for a request sent at the given instant of time.Now.
func (c *Clock) Heard(date, asked time.Time) { c.heard(date, asked, &pace{}) }

// heard does the same for an answer on a connection. The timeline is slowed by the most that any connection has found,
// because each finds only what happens after it began comparing, or began again.
func (c *Clock) heard(date, asked time.Time, by *pace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, came := c.monotonic(asked), c.monotonic(time.Now())
	c.server.answered(date, asked, came)
	by.found += by.answered(date, asked, came)
	if by.since.Equal(came) {
		by.found = max(by.found, c.fast)
	}
	if more := by.found - c.fast; more > 0 {
		c.tick()
		c.fast += more
		c.debt += more
	}
}

// Listen returns the configuration of a client whose answers tell the API server's time.
func (c *Clock) Listen(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &listener{next: next, clock: c} })
	return config
}

// listener notes the Date of each answer.
type listener struct {
	next  http.RoundTripper
	clock *Clock
	pace  pace // belongs to the clock
}

// RoundTrip implements http.RoundTripper.
func (l *listener) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := time.Now()
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		l.clock.heard(date, asked, &l.pace)
	}
	return response, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper of k8s.io/apimachinery: client-go cancels abandoned requests
// at the underlying connection.
func (l *listener) WrappedRoundTripper() http.RoundTripper { return l.next }
