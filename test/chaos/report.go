// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// mostStories bounds how many stories are told of one kind; the counts are complete.
const mostStories = 5

// report writes what happened and what is found, and returns whether nothing went wrong. What went wrong comes first,
// as not everything that shows the output of a test shows all of it.
func (h *history) report(out io.Writer, done map[disruption]int) (clean bool) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	found := h.judge()
	h.tellFindings(say, found)
	h.reportFaults(say, done)
	evicted := h.reportPods(say)
	h.reportLateness(say)
	reportVerdict(say, found)
	if evicted == 0 {
		say("\nNothing was evicted, so this proves nothing: use a longer -duration.")
	}
	return len(found) == 0 && evicted > 0
}

type sayer func(format string, args ...any)

func (h *history) reportFaults(say sayer, done map[disruption]int) {
	total := 0
	say("\nFaults injected")
	for _, kind := range faultKinds {
		say("  %6d  %s", h.injected[kind], kind)
		total += h.injected[kind]
	}
	say("  %6d  in all, in %d calls", total, len(h.calls))
	say("\nDisruptions")
	for _, kind := range slices.Concat(disruptions, disruptionsOfEnding) {
		if !slices.Contains(disruptionsOfEnding, kind) || done[kind] > 0 {
			say("  %6d  %s", done[kind], kind)
		}
	}
	how := map[string]int{}
	for _, l := range h.lives {
		how[l.how]++
	}
	say("  %6d  times a replica %s, as one that loses its Lease does", how[endedItself], endedItself)
	say("  %6d  times a replica %s", how[endedUnready], endedUnready)
	say("  %6d  changes of leader", len(h.reigns))
	say("  %6.0f  seconds at most that a running replica had no watch of nodes or pods", h.longestBlindness().Seconds())
}

// longestBlindness is the longest time that a running replica had no watch, for whatever reason: it was cut or refused,
// or client-go waits before it tries again.
func (h *history) longestBlindness() time.Duration {
	longest := time.Duration(0)
	for _, l := range h.lives {
		for _, kind := range []callKind{watchPods, watchNodes} {
			for _, e := range h.unwatched(l, kind) {
				longest = max(longest, e.To.Sub(e.From))
			}
		}
	}
	return longest
}

// reportPods returns how many pods were evicted.
func (h *history) reportPods(say sayer) (evicted int) {
	others, foreign, stayed := 0, 0, 0
	for _, p := range h.pods {
		switch _, left := p.left(); {
		case !left:
			stayed++
		case p.byKeeper() || h.ended(p):
			evicted++
		case p.byBuiltIn():
			foreign++
		default:
			others++
		}
	}
	calls := map[callKind]int{}
	for _, c := range h.calls {
		calls[c.kind]++
	}
	say("\nPods")
	say("  %6d  existed", len(h.pods))
	say("  %6d  evicted", evicted)
	if foreign > 0 {
		say("  %6d  evicted by the built-in", foreign)
	}
	say("  %6d  deleted by others first", others)
	say("  %6d  stayed to the end", stayed)
	say("  %6d  DELETEs and %d PATCHes of a pod, and %d PATCHes of a node, were sent by the replicas", calls[deletePod], calls[patchPod], calls[patchNode])
	return evicted
}

// ended reports whether a DELETE of a replica reached the API server and nobody knows its answer, and no other is
// known.
func (h *history) ended(p *pod) bool {
	return len(p.deletions) == 0 && slices.ContainsFunc(h.calls, func(c *call) bool {
		return c.kind == deletePod && c.uid == p.uid && c.unanswered()
	})
}

func (h *history) reportLateness(say sayer) {
	var guarded, touched, untouched, unexplained []late
	for _, l := range h.lateness() {
		if l.unexplained() {
			unexplained = append(unexplained, l)
		}
		switch {
		case l.pod.guarded():
			guarded = append(guarded, l)
		case l.explanation.touched:
			touched = append(touched, l)
		default:
			untouched = append(untouched, l)
		}
	}
	say("\nLateness: from due until the API server had accepted the DELETE")
	say("  %s  %s", quantiles(untouched), "not touched by a fault")
	say("  %s  %s", quantiles(touched), "touched by one")
	say("  %s  %s", quantiles(guarded), "pods that the webhook selects")
	say("  %6d  later than the faults explain", len(unexplained))
	for _, l := range unexplained[:min(len(unexplained), mostStories)] {
		say("\n  not explained: pod %s left node %s %s after it was due; the faults explain %s of it", l.pod.name, l.node,
			l.by.Round(time.Millisecond), l.explanation.until.Sub(l.due).Round(time.Millisecond))
		say("%s", h.story(l.pod.uid, l.node, l.due, l.evicted.received))
	}
}

// quantiles of the lateness of evictions, which are ordered with the latest first.
func quantiles(all []late) string {
	if len(all) == 0 {
		return fmt.Sprintf("%6d", 0)
	}
	q := func(share float64) time.Duration {
		return all[len(all)-1-int(share*float64(len(all)-1))].by.Round(time.Millisecond)
	}
	return fmt.Sprintf("%6d evicted, half within %s, 9 in 10 within %s, 99 in 100 within %s, all within %s", len(all), q(0.5), q(0.9), q(0.99), q(1))
}

func (h *history) tellFindings(say sayer, found []finding) {
	count := map[charge]int{}
	for _, f := range found {
		count[f.charge]++
		if count[f.charge] > mostStories {
			continue
		}
		say("\n  %s: %s: %s", f.charge, f.name, f.why)
		say("%s", h.story(f.uid, f.name, f.when, f.until))
	}
}

func reportVerdict(say sayer, found []finding) {
	count := map[charge]int{}
	for _, f := range found {
		count[f.charge]++
	}
	say("\nVerdict")
	for _, c := range charges {
		say("  %-7s %d", c, count[c])
	}
}
