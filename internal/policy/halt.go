// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"time"
)

// Halt is the memory of halts: of the pauses and open breakers, of any policy, that kept a pod because of a taint. The
// zero value knows of none. Deadlines count from the end of the last one, so an end that is noted late makes them
// later, never sooner.
type Halt struct {
	// Since is when the current halt began; zero if there is none.
	Since time.Time
	// Ended is when the last one ended; zero if none has.
	Ended time.Time
}

// Note notes whether a pause or an open breaker keeps the pod now.
func (h *Halt) Note(on bool, now time.Time) {
	switch {
	case on && h.Since.IsZero():
		h.Since = now
	case !on && !h.Since.IsZero():
		h.Since, h.Ended = time.Time{}, now
	}
}

// Halts reports whether a pause or an open breaker of one of the policies that select a pod keeps it now because of a
// taint. The pod is due.
func Halts(policies []*Policy, cause Cause, now time.Time, open func(*Policy) bool) bool {
	return !cause.Due.After(now) && slices.ContainsFunc(policies, func(p *Policy) bool {
		return !p.DryRun && p.Applies(cause.Taint) &&
			(p.paused != nil || p.breaker != nil && !p.breaker.Resumed(cause.seen(), now) && open(p))
	})
}

// MayHalt reports whether a pause or an open breaker of the policy can keep pods.
func (p *Policy) MayHalt() bool { return !p.DryRun && (p.paused != nil || p.breaker != nil) }
