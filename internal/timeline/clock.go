// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// Clock is the timeline of a process, with what is known of the API server's clock. All parts of a process share one.
// The zero value is ready. It is safe for concurrent use.
type Clock struct {
	// Wall is this machine's clock, which can be wrong and can be set; nil: time.Now.
	Wall func() time.Time

	mu     sync.Mutex
	begun  time.Time     // with a monotonic reading
	held   time.Duration // by how much the timeline is behind the monotonic clock, which was too fast
	now    time.Time     // the newest instant that was given out
	server server
}

// Now returns the present instant of the timeline. It never goes back. Instants of the timeline have no monotonic
// reading of their own, and are to be compared with each other only: neither with time.Now nor, by time.Since, with it.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.tick()
	return now
}

// Since returns how long ago an instant of the timeline was.
func (c *Clock) Since(instant time.Time) time.Duration { return c.Now().Sub(instant) }

// tick returns the present instant of the timeline, and that of the monotonic clock. The caller holds c.mu.
func (c *Clock) tick() (now, monotonic time.Time) {
	monotonic = c.monotonic(time.Now())
	c.now = Later(c.now, monotonic.Add(-c.held))
	return c.now, monotonic
}

// monotonic returns an instant of the monotonic clock without its reading, so that nothing falls back on the wall clock
// when it is compared. The caller holds c.mu.
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

// See returns the sight of something that this process sees now. What the API server has recorded can be dated by it
// once a Date was heard: one clock alone is not believed.
func (c *Clock) See() verdict.Sight {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, monotonic := c.tick()
	seen := verdict.Sight{At: now, Latest: c.wall()}
	if c.server.heard {
		from, to := c.server.bounds(monotonic)
		seen.Behind, seen.Latest = Earlier(from, seen.Latest), to
	}
	return seen
}

// Earliest returns the earliest that the API server's clock can show; this machine's clock before a Date was heard.
func (c *Clock) Earliest() time.Time {
	from, _ := c.bounds()
	return from
}

// Latest returns the latest that the API server's clock can show; this machine's clock before a Date was heard.
func (c *Clock) Latest() time.Time {
	_, to := c.bounds()
	return to
}

// Server returns what the API server's clock showed at an instant of the timeline, at the earliest. Zero stays zero.
func (c *Clock) Server(instant time.Time) time.Time {
	if instant.IsZero() {
		return instant
	}
	return c.Earliest().Add(-c.Since(instant))
}

func (c *Clock) bounds() (from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.server.heard {
		return c.wall(), c.wall()
	}
	return c.server.bounds(c.monotonic(time.Now()))
}

// Shown returns what this machine's clock shows at an instant of the timeline, for people to read.
func (c *Clock) Shown(instant time.Time) time.Time { return instant.Add(c.wall().Sub(c.Now())) }

// Offset returns by how much the API server's clock is ahead of this machine's at least; negative if it is behind, and
// zero if they agree as far as can be told, or if no Date was heard.
func (c *Clock) Offset() time.Duration {
	from, to := c.bounds()
	now := c.wall()
	switch {
	case now.Before(from):
		return from.Sub(now)
	case now.After(to):
		return to.Sub(now)
	}
	return 0
}

// Heard notes the Date of an answer that has just come to a question of the given instant of time.Now.
func (c *Clock) Heard(date, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += c.server.answered(date, c.monotonic(asked), c.monotonic(time.Now()))
}

// Listen returns the configuration of a client whose answers tell the time.
func (c *Clock) Listen(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return listener{next, c} })
	return config
}

// listener notes the Date of each answer.
type listener struct {
	next  http.RoundTripper
	clock *Clock
}

// RoundTrip implements http.RoundTripper.
func (l listener) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := time.Now()
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		l.clock.Heard(date, asked)
	}
	return response, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper of k8s.io/apimachinery: client-go cancels a request that it
// gives up at the connection below.
func (l listener) WrappedRoundTripper() http.RoundTripper { return l.next }
