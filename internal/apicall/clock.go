// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Clock is what is known of the API server's clock, from the Date of its answers: each tells, to the second, what that
// clock showed at some time between the question and the answer. What several answers tell is combined, so one that was
// held up makes nothing less certain. Between answers the monotonic clock of this process counts, which nobody sets.
// The zero value knows nothing yet. It is safe for concurrent use.
type Clock struct {
	mu       sync.Mutex
	at       time.Time // when an answer came last
	from, to time.Time // between which instants the API server's clock was then
}

// drift is by how much a second of this machine and a second of the API server's may differ, in parts of it: twice what
// NTP slews a clock.
const drift = 1000

// Listen returns the configuration of a client whose answers tell the time.
func (c *Clock) Listen(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return timekeeper{next, c} })
	return config
}

// timekeeper notes the Date of each answer.
type timekeeper struct {
	next  http.RoundTripper
	clock *Clock
}

// RoundTrip implements http.RoundTripper.
func (t timekeeper) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := time.Now()
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		t.clock.Heard(date, asked)
	}
	return response, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper of k8s.io/apimachinery: client-go cancels a request that it
// gives up at the connection below.
func (t timekeeper) WrappedRoundTripper() http.RoundTripper { return t.next }

// Heard notes the Date of an answer that has just come to a question of the given instant. A Date that contradicts the
// earlier ones is believed alone: the API server's clock was set, or another API server answered.
func (c *Clock) Heard(date, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	from, to := date, date.Add(time.Second+now.Sub(asked))
	if earlier, later, known := c.boundsAt(now); known && !earlier.After(to) && !later.Before(from) {
		if earlier.After(from) {
			from = earlier
		}
		if later.Before(to) {
			to = later
		}
	}
	c.at, c.from, c.to = now, from, to
}

// bounds returns between which instants the API server's clock is now.
func (c *Clock) bounds() (from, to time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.boundsAt(time.Now())
}

// boundsAt returns the same for an instant of this process; c.mu is held.
func (c *Clock) boundsAt(now time.Time) (from, to time.Time, known bool) {
	if c.at.IsZero() {
		return time.Time{}, time.Time{}, false
	}
	since := now.Sub(c.at)
	return c.from.Add(since - since/drift), c.to.Add(since + since/drift), true
}

// Until returns how long it takes until the API server's clock reaches an instant for certain; zero if it has,
// or if nothing is known.
func (c *Clock) Until(instant time.Time) time.Duration {
	from, _, known := c.bounds()
	if !known {
		return 0
	}
	return max(instant.Sub(from), 0)
}

// Ours returns what this machine's clock shows when the API server's shows an instant: the same, or the earliest that
// it can be where the two are known to differ.
func (c *Clock) Ours(instant time.Time) time.Time {
	if c.Offset() == 0 {
		return instant
	}
	_, to, _ := c.bounds()
	return instant.Add(time.Now().Round(0).Sub(to.Round(0)))
}

// Time returns the wall clock of this machine, or of the API server where the two are known to differ: then the
// latest that it can be.
func (c *Clock) Time() time.Time {
	now := time.Now().Round(0)
	if c.Offset() == 0 {
		return now
	}
	_, to, _ := c.bounds()
	return to.Round(0)
}

// Earliest returns the earliest that the API server's clock can show; this machine's clock where nothing is known.
func (c *Clock) Earliest() time.Time {
	from, _, known := c.bounds()
	if !known {
		return time.Now().Round(0)
	}
	return from.Round(0)
}

// Offset returns by how much the API server's clock is ahead of this machine's at least; negative if it is
// behind, and zero if they agree as far as can be told, or if nothing is known.
func (c *Clock) Offset() time.Duration {
	from, to, known := c.bounds()
	now := time.Now().Round(0)
	switch {
	case !known:
		return 0
	case now.Before(from):
		return from.Round(0).Sub(now)
	case now.After(to):
		return to.Round(0).Sub(now)
	}
	return 0
}
