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

// stamp returns the reading of the clock at which something that arrived at an instant counts, which is after the
// latest echo.
func (c *clock) stamp(at time.Time) time.Duration {
	if c.echoed.IsZero() {
		return c.now
	}
	return c.now + min(at.Sub(c.echoed), readiness.CountedMost)
}
