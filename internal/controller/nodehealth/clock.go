// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// clock is the clock of silence. It runs only while this process hears its own renewals. An echo of one that was begun
// at b shows that all that kubelets had stored before b has come, too. Time in which nobody could have been heard, or
// in which this process stood still, is no node's silence. See "Node health on one page" in docs/design.md.
type clock struct {
	now     time.Duration
	began   time.Time     // this process
	echoed  time.Time     // when the renewal of the latest echo began, or zero before the first
	settled time.Duration // until then, nodes have [readiness.Settling] in addition to their grace
}

// echo notes that a renewal which was begun at an instant has come back. It reports whether that is news.
func (c *clock) echo(begun time.Time) bool {
	if !begun.After(c.echoed) {
		return false
	}
	if !c.echoed.IsZero() {
		gap := begun.Sub(c.echoed)
		c.now += min(gap, readiness.CountedMost)
		if gap > readiness.CountedMost {
			c.settle()
		}
	}
	c.echoed = begun
	return true
}

// settle gives nodes that seem silent from now on some time to be heard.
func (c *clock) settle() { c.settled = c.now + readiness.Settling }

// freshAt reports whether a verdict may be carried out at an instant: the latest echo is not too old for it.
func (c *clock) freshAt(at time.Time) bool {
	return !c.echoed.IsZero() && at.Sub(c.echoed) < readiness.CountedMost
}

// sinceEcho returns how long ago the renewal of the latest echo was begun, or this process if there was none.
func (c *clock) sinceEcho(at time.Time) time.Duration {
	if c.echoed.IsZero() {
		return at.Sub(c.began)
	}
	return at.Sub(c.echoed)
}

// stamp returns when on the clock something is news that came at an instant: after what the latest echo counted.
func (c *clock) stamp(at time.Time) time.Duration {
	if c.echoed.IsZero() {
		return c.now
	}
	return c.now + min(at.Sub(c.echoed), readiness.CountedMost)
}
