// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// charge is what a replica did wrong.
type charge string

const (
	lost  charge = "lost"  // a pod that had to leave and was not evicted
	tardy charge = "late"  // a pod that was evicted long after it had to leave
	early charge = "early" // a pod that was evicted too early
	wrong charge = "wrong" // a pod that need not have left at all
	twice charge = "twice" // a pod that was known to be leaving already

	foreign charge = "foreign" // a pod that the built-in evicted although the eviction clock was fresh
)

var charges = []charge{lost, tardy, early, wrong, twice, foreign}

// finding is one thing that went wrong.
type finding struct {
	charge charge
	uid    types.UID // of the pod; empty if that is not known
	name   string
	when   time.Time
	until  time.Time // how long it lasted; zero for an instant
	why    string
}

// judge finds what went wrong.
func (h *history) judge() []finding {
	var found []finding
	for _, c := range h.calls {
		if c.writes() {
			found = append(found, h.judgeCall(c)...)
		}
	}
	found = append(found, h.judgeStamps()...)
	found = append(found, h.judgeDelays()...)
	found = append(found, h.judgeForeign()...)
	found = append(found, h.judgeStays()...)
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.name, b.name))
	})
	return found
}

// judgeCall judges one DELETE, or one PATCH of the condition, of a replica. It also judges calls that were never
// carried out, because the replica still decided on them.
func (h *history) judgeCall(c *call) []finding {
	charged := func(as charge, format string, args ...any) []finding {
		why := fmt.Sprintf("%s by run %d of %s %s", c.kind, c.run, c.replica, fmt.Sprintf(format, args...))
		return []finding{{charge: as, uid: c.uid, name: c.name, when: c.received, why: why}}
	}
	if c.uid == "" {
		return charged(wrong, "has no UID precondition")
	}
	pod := h.pods[c.uid]
	if pod == nil || pod.name != c.name {
		return charged(wrong, "has UID %s, which no pod of that name ever had", c.uid)
	}
	if before := h.delivered(c); before != nil {
		return charged(twice, "was sent %s after the replica was told that an earlier one had been accepted", c.received.Sub(before.told).Round(time.Millisecond))
	}
	known := h.knowledge(c, pod)
	switch {
	case known.due && h.shouldHaveAborted(c, pod):
		return charged(wrong, "was carried out %s after it was sent, long after the pod no longer had to leave: it was not aborted", c.answered.Sub(c.received).Round(time.Millisecond))
	case known.due:
		return nil
	case known.onlyTerminating && pod.byKeeper():
		return charged(twice, "was sent although the replica had seen long before that the pod was terminating")
	case known.onlyTerminating:
		return charged(wrong, "is for a pod that the replica had long seen terminating or gone")
	case known.leaves:
		return charged(early, "was sent %s before the pod could be due", known.earliest.Sub(c.received).Round(time.Millisecond))
	}
	return charged(wrong, "is for a pod that need not leave, judging by everything that the replica can have known for %s", c.received.Sub(known.nodeSince).Round(time.Millisecond))
}

// abortedWithin is how long it may take to abort a DELETE after the watch has shown that the pod need no longer leave.
const abortedWithin = time.Second

// shouldHaveAborted reports whether a DELETE was carried out although its sender must have known for some time that the
// pod no longer had to leave. The API server can answer long after the pod has begun to leave: it asks webhooks twice.
func (h *history) shouldHaveAborted(c *call, p *pod) bool {
	by := c.answered.Add(-abortedWithin)
	if left, ok := p.left(); ok && left.visible.Before(c.answered) {
		by = left.visible.Add(-abortedWithin)
	}
	if c.kind != deletePod || !c.accepted() || by.Before(c.received) {
		return false
	}
	known := h.watched(c, p, by)
	return !known.leaves && !known.onlyTerminating
}

// delivered returns an earlier DELETE of the same pod that the same process knows was accepted.
func (h *history) delivered(c *call) *call {
	if c.kind != deletePod {
		return nil
	}
	for _, before := range h.calls {
		if !before.received.Before(c.received) {
			return nil
		}
		if before.kind == deletePod && before.uid == c.uid && before.replica == c.replica && before.run == c.run &&
			before.delivered() && before.told.Before(c.received) {
			return before
		}
	}
	return nil
}
