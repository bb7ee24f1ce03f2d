// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// overflows is the largest number of tolerationSeconds for which the built-in's 64-bit nanoseconds do not overflow.
const overflows = math.MaxInt64 / int64(time.Second)

// evictionsPerSecond is roughly how many pods the built-in evicts per second with its default limit of 20 calls. A pod
// takes three calls, and its event a fourth.
const evictionsPerSecond = 5

// why explains a difference, as far as possible. If the cause is inferred and was not seen, the text says "probably".
func (ps *promises) why(p *promise, outcome Outcome) string {
	switch outcome {
	case Early:
		return ps.whyEarly(p)
	case Late:
		return ps.whyLate(p)
	case Never:
		return "it was already counted as never evicted"
	case Twice:
		before := ps.former[p.pod.Key()]
		return fmt.Sprintf("the built-in deletes by name, and the pod that had this name before had to leave node %s", before.node)
	default:
		return ps.whyStayed(p)
	}
}

func (ps *promises) whyEarly(p *promise) string {
	before, replaces := ps.former[p.pod.Key()]
	switch {
	case p.reason.Toleration != nil && p.tolerated() > overflows:
		return fmt.Sprintf("the built-in cannot count the %d s for which %s is tolerated: as nanoseconds they overflow 64 bits", p.tolerated(), name(p.reason.Taint.Taint))
	case ps.kept(p):
		return ps.whyKept(p)
	case replaces && before.uid != p.pod.UID && near(p.left, before.due):
		return "the built-in knows pods by name, and went on with the countdown of the pod that had this name before"
	}
	return "the cause cannot be determined from what was seen"
}

func (ps *promises) whyLate(p *promise) string {
	began := p.left.Add(-time.Duration(min(p.tolerated(), overflows)) * time.Second)
	switch {
	case ps.renamed(p, began):
		return fmt.Sprintf("the built-in counted the %d s from %s, when %s was added, and not from %s, when the node became not ready",
			p.tolerated(), ps.shown(began), name(p.reason.Taint.Taint), ps.shown(p.reason.Start))
	case ps.kept(p):
		return ps.whyKept(p)
	case ps.queued(p, p.left):
		return ps.whyQueued(p)
	case !p.marked.IsZero() && p.left.Sub(p.marked) > Tolerance:
		return fmt.Sprintf("the built-in marked it for deletion at %s, and its delete was accepted only %s later", ps.shown(p.marked), duration(p.left.Sub(p.marked)))
	case p.tolerated() == 0:
		return "the cause cannot be determined from what was seen"
	}
	return fmt.Sprintf("the built-in restarted its countdown of %d s at %s, probably because the process restarted; it should have begun at %s",
		p.tolerated(), ps.shown(began), ps.shown(p.reason.Start))
}

// renamed reports whether a countdown that began at an instant began when a node that was not ready became unreachable,
// or the other way round.
func (ps *promises) renamed(p *promise, began time.Time) bool {
	taint := p.reason.Taint
	ahead, _ := ps.clock.Ahead()
	notReady := taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
	return notReady && p.tolerated() > 0 && taint.TimeAdded != nil &&
		near(began, taint.TimeAdded.Add(-ahead)) && !near(began, p.reason.Start)
}

// kept reports whether the pod was evicted, or has not been evicted yet, because the built-in keeps the countdown with
// which it began, and ignores later changes.
func (ps *promises) kept(p *promise) bool {
	return !p.first.due.IsZero() && !near(p.first.due, p.due) && (p.left.IsZero() || near(p.left, p.first.due))
}

func (ps *promises) whyKept(p *promise) string {
	const went = "the built-in went on with the first countdown"
	switch {
	case p.first.key == p.reason.Taint.Key && p.first.seconds != p.tolerated():
		return fmt.Sprintf("%s of %d s; it ignored the change of tolerationSeconds to %d", went, p.first.seconds, p.tolerated())
	case p.first.key == p.reason.Taint.Key:
		return fmt.Sprintf("the built-in counted from %s, when it first saw %s, and not from %s",
			ps.shown(p.first.due.Add(-time.Duration(p.first.seconds)*time.Second)),
			name(p.reason.Taint.Taint), ps.shown(p.reason.Start))
	case ps.has(p.pod.Node, p.first.key):
		return fmt.Sprintf("the built-in ignored a second taint with a shorter toleration: it continued the countdown for %s, tolerated for %d s, although %s is tolerated for %d s",
			p.first.key, p.first.seconds, name(p.reason.Taint.Taint), p.tolerated())
	}
	return fmt.Sprintf("%s, of %d s for %s, after that taint was removed", went, p.first.seconds, p.first.key)
}

// has reports whether a node has a NoExecute taint of a key.
func (ps *promises) has(node, key string) bool {
	for _, taint := range ps.verdicts.Taints(node) {
		if taint.Key == key {
			return true
		}
	}
	return false
}

// queued reports whether the time from due to an instant is at most what the built-in needs for all pods that were due
// with it.
func (ps *promises) queued(p *promise, at time.Time) bool {
	return at.Sub(p.due) <= time.Duration(ps.company(p))*time.Second/evictionsPerSecond
}

// company is how many pods were evicted since the pod became due, or are due and waiting.
func (ps *promises) company(p *promise) uint64 {
	since := ps.evictions - p.ahead
	if !p.overdue {
		since = 0
	}
	return since + uint64(max(ps.overdue, 0))
}

func (ps *promises) whyQueued(p *promise) string {
	return fmt.Sprintf("it probably waited in the built-in's queue: %d pods were due, and with its default limit of 20 calls a second it evicts about %d a second",
		ps.company(p), evictionsPerSecond)
}

// whyNever explains why a due pod is still there.
func (ps *promises) whyNever(p *promise, at time.Time) string {
	switch {
	case !p.marked.IsZero():
		return fmt.Sprintf("the built-in marked it for deletion at %s, but it was not deleted; the built-in tries five times within 50 ms and then forgets the pod", ps.shown(p.marked))
	case p.pod.Flags.Has(podcache.MarkedByBuiltIn):
		return "the built-in had marked it for deletion before this comparison began, and did not delete it"
	case ps.kept(p) && p.first.due.After(at):
		return ps.whyKept(p)
	case ps.queued(p, at):
		return ps.whyQueued(p)
	case p.tolerated() > 0:
		return fmt.Sprintf("the built-in has not marked the pod; it was probably restarted and began its countdown of %d s again, or was refused: it tries five times within 50 ms and then forgets the pod", p.tolerated())
	}
	return "the built-in has not marked the pod; it was probably refused: it tries five times within 50 ms and then forgets the pod"
}

func (ps *promises) whyStayed(p *promise) string {
	switch {
	case p.pod.Flags.Has(podcache.Mirror):
		return "it is the mirror of a static pod, which only its kubelet can stop"
	case p.ended.IsZero() && len(ps.verdicts.Taints(p.pod.Node)) == 0:
		return "its node has no NoExecute taint, so nothing required it to leave"
	case p.ended.IsZero():
		return "it tolerates the taints of its node indefinitely"
	case p.untainted:
		return fmt.Sprintf("the built-in kept deleting pods after the untaint at %s", ps.shown(p.ended))
	}
	return fmt.Sprintf("the built-in evicted it although it had tolerated all remaining taints since %s", ps.shown(p.ended))
}

func name(taint corev1.Taint) string { return "taint " + taint.Key }

// shown formats an instant as a time of day, in UTC.
func (ps *promises) shown(at time.Time) string { return ps.clock.Shown(at).UTC().Format("15:04:05") }

// duration formats a duration for people, with about two digits.
func duration(d time.Duration) string {
	const year = 365 * 24 * time.Hour
	switch d = d.Abs(); {
	case d > 100*year:
		return "more than 100 years"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
