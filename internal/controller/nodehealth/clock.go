// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// clock measures how long nodes have been silent. It runs only while this process receives its own renewals. The echo
// of a renewal that began at b shows that everything that kubelets stored before b has arrived, too. Of a time in which
// no renewal could arrive, or in which this process was paused, at most five seconds count as silence of any node. See
// "Node health on one page" in docs/design.md.
type clock struct {
	now        time.Duration
	began      time.Time     // this process
	echoed     time.Time     // when the renewal of the latest echo began, or zero before the first
	extraUntil time.Duration // until then, nodes get [readiness.ExtraGrace] on top of their grace
}

// echo notes that a renewal that began at an instant has come back. It reports whether that is news.
func (c *clock) echo(begun time.Time) bool {
	if !begun.After(c.echoed) {
		return false
	}
	if !c.echoed.IsZero() {
		gap := begun.Sub(c.echoed)
		c.now += min(gap, readiness.CountedMost)
		if gap > readiness.CountedMost {
			c.giveExtraGrace()
		}
	}
	c.echoed = begun
	return true
}

// giveExtraGrace gives nodes that seem silent from now on some extra time to be heard.
func (c *clock) giveExtraGrace() { c.extraUntil = c.now + readiness.ExtraGrace }

// freshAt reports whether the latest echo is recent enough at an instant to act on a verdict.
func (c *clock) freshAt(at time.Time) bool {
	return !c.echoed.IsZero() && at.Sub(c.echoed) < readiness.CountedMost
}

// sinceEcho returns how long ago the renewal of the latest echo began, or this process if there was none.
func (c *clock) sinceEcho(at time.Time) time.Duration {
	if c.echoed.IsZero() {
		return at.Sub(c.began)
	}
	return at.Sub(c.echoed)
}

// sign is a sign of life of a node: when it came, on the clock and by this process.
type sign struct {
	on time.Duration
	at time.Time
}

// sign returns a sign of life that arrived at an instant, which is after the latest echo.
func (c *clock) sign(at time.Time) sign {
	if c.echoed.IsZero() {
		return sign{c.now, at}
	}
	return sign{c.now + min(at.Sub(c.echoed), readiness.CountedMost), at}
}

// silence returns how long ago a sign of life came. What arrives by another watch than the echoes do can be newer than
// the clock: when late echoes then come all at once, the clock jumps, but no more time has passed than this process
// knows of. Before the first echo, nothing is known about silence.
func (c *clock) silence(s sign) time.Duration {
	if c.echoed.IsZero() {
		return 0
	}
	return min(c.now-s.on, c.echoed.Sub(s.at))
}

// earlier returns the sign of life as if it had come earlier.
func (s sign) earlier(by time.Duration) sign { return sign{s.on - by, s.at.Add(-by)} }

// latest returns the later of two signs of life.
func (s sign) latest(other sign) sign {
	if other.at.After(s.at) {
		s.at = other.at
	}
	return sign{max(s.on, other.on), s.at}
}
