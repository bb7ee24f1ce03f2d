// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// overflows is the largest number of tolerationSeconds for which the built-in's 64-bit nanoseconds do not overflow.
	overflows = math.MaxInt64 / int64(time.Second)
	// evictionsPerSecond is roughly how many pods the built-in evicts per second with its default limit of 20 calls. A pod
	// takes three calls, and its event a fourth.
	evictionsPerSecond = 5
	// gaveUp is what the built-in does with an eviction that is refused.
	gaveUp = "tries five times within 50 ms and then forgets the pod"
)

// why explains an outcome as far as possible: the first explanation that applies to the pod counts. If the cause is
// inferred and was not seen, the text says "probably".
func (c *Comparison) why(e *expected, outcome v1alpha1.ShadowOutcome, now time.Time) string {
	const unknown = "the cause cannot be determined from what was seen"
	switch {
	case outcome == v1alpha1.ShadowEarly:
		return cmp.Or(whyOverflow(e), c.whyFirstCountdown(e, now), c.whyPredecessor(e), unknown)
	case outcome == v1alpha1.ShadowLate:
		return cmp.Or(c.whyFirstCountdown(e, now), c.whyQueue(e, e.deleted), c.whyRestart(e), unknown)
	case outcome == v1alpha1.ShadowNever && e.deleted.IsZero():
		return cmp.Or(c.whyRefused(e), c.whyFirstCountdown(e, now), c.whyQueue(e, now),
			"the built-in controller has not marked the pod; it was probably restarted and began a countdown again, or was refused: it "+gaveUp)
	case outcome == v1alpha1.ShadowNever:
		return "it was already counted as never evicted"
	case outcome == v1alpha1.ShadowTwice:
		return fmt.Sprintf("the built-in controller deletes by name, and the pod that had this name before had to leave node %s", c.predecessors[e.pod.Key()].pod.Node)
	case e.pod.Flags.Has(podcache.Mirror):
		return "it is the mirror of a static pod, which only its kubelet can stop"
	case e.untainted:
		return fmt.Sprintf("the built-in controller kept deleting pods after the untaint at %s", c.timeOfDay(e.ended))
	case !e.ended.IsZero():
		return fmt.Sprintf("the built-in controller evicted it although it had tolerated all remaining taints since %s", c.timeOfDay(e.ended))
	}
	return "nothing required it to leave: its node has no NoExecute taint that it does not tolerate indefinitely"
}

func whyOverflow(e *expected) string {
	tolerated := seconds(e.reason)
	if tolerated <= overflows {
		return ""
	}
	return fmt.Sprintf("the built-in controller cannot count the %d s for which taint %s is tolerated: as nanoseconds they overflow 64 bits", tolerated, e.reason.Taint.Key)
}

// whyFirstCountdown applies if the pod was evicted, or has not been evicted yet, because the built-in keeps the
// countdown with which it began, and ignores later changes.
func (c *Comparison) whyFirstCountdown(e *expected, now time.Time) string {
	const goesOn = "the built-in controller went on with the first countdown"
	due := e.timer.Due
	applies := near(e.deleted, due)
	if e.deleted.IsZero() {
		applies = due.After(now)
	}
	if !applies || due.IsZero() || near(due, e.due) {
		return ""
	}
	taint, counts := e.reason.Taint.Key, seconds(e.reason)
	first, counted := e.timer.Taint.Key, seconds(e.timer.Reason)
	remains := slices.ContainsFunc(c.taints(e.pod.Node), func(taint verdict.Taint) bool { return taint.Key == first })
	switch {
	case first == taint && counted != counts:
		return fmt.Sprintf("%s of %d s; it ignored the change of tolerationSeconds to %d", goesOn, counted, counts)
	case first == taint:
		return fmt.Sprintf("the built-in controller counted from %s, when it first saw taint %s, and not from %s",
			c.timeOfDay(due.Add(-lasting(counted))), taint, c.timeOfDay(e.reason.Start))
	case remains:
		return fmt.Sprintf("the built-in controller ignored a second taint with a shorter toleration: it continued the countdown for %s, tolerated for %d s, although taint %s is tolerated for %d s",
			first, counted, taint, counts)
	}
	return fmt.Sprintf("%s, of %d s for %s, after that taint was removed", goesOn, counted, first)
}

func (c *Comparison) whyPredecessor(e *expected) string {
	p := c.predecessors[e.pod.Key()]
	if p == nil || p.pod.UID == e.pod.UID || !near(e.deleted, p.due) {
		return ""
	}
	return "the built-in controller knows pods by name, and went on with the countdown of the pod that had this name before"
}

// whyQueue applies if the time from due to an instant is at most what the built-in needs for all pods that were due
// with the pod: those that were evicted since it became due, and those that wait.
func (c *Comparison) whyQueue(e *expected, at time.Time) string {
	pods := c.overdue
	if e.overdue {
		pods += int(c.evictions - e.ahead)
	}
	if at.Sub(e.due) > time.Duration(pods)*time.Second/evictionsPerSecond {
		return ""
	}
	return fmt.Sprintf("it probably waited in the built-in controller's queue: %d pods were due, and with its default limit of 20 calls a second it evicts about %d a second",
		pods, evictionsPerSecond)
}

func (c *Comparison) whyRestart(e *expected) string {
	switch tolerated := seconds(e.reason); {
	case !e.marked.IsZero() && e.deleted.Sub(e.marked) > Tolerance:
		return fmt.Sprintf("the built-in controller marked it for deletion at %s, and its delete was accepted only %s later", c.timeOfDay(e.marked), duration(e.deleted.Sub(e.marked)))
	case tolerated > 0:
		return fmt.Sprintf("the built-in controller restarted its countdown of %d s at %s, probably because the process restarted; it should have begun at %s",
			tolerated, c.timeOfDay(e.deleted.Add(-lasting(tolerated))), c.timeOfDay(e.reason.Start))
	}
	return ""
}

func (c *Comparison) whyRefused(e *expected) string {
	when := "before this comparison began"
	if !e.marked.IsZero() {
		when = "at " + c.timeOfDay(e.marked)
	} else if !e.pod.Flags.Has(podcache.MarkedByBuiltIn) {
		return ""
	}
	return fmt.Sprintf("the built-in controller marked it for deletion %s, but it was not deleted; the built-in controller %s", when, gaveUp)
}

// seconds returns for how many seconds a taint is tolerated; zero if it is not.
func seconds(reason verdict.Reason) int64 {
	return max(ptr.Deref(ptr.Deref(reason.Toleration, corev1.Toleration{}).TolerationSeconds, 0), 0)
}

// lasting is the longest countdown of at most so many seconds that does not overflow.
func lasting(seconds int64) time.Duration {
	return time.Duration(min(seconds, overflows)) * time.Second
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() <= Tolerance }

// timeOfDay formats an instant as a time of day, in UTC.
func (c *Comparison) timeOfDay(at time.Time) string {
	return c.config.Clock.Shown(at).UTC().Format(time.TimeOnly)
}

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
