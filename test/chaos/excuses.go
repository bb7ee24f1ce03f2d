// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// An excuse is a time in which a pod could not be evicted, or a replica was right to wait.

// explanation says until when faults explain that a pod has not left.
type explanation struct {
	until   time.Time
	touched bool // there was something to explain it
}

// backoff returns how long a replica waits after a failed call, given the number of earlier failures.
type backoff func(failed *call, failures int) time.Duration

// jitter is the factor by which the wait after a refusal may be longer than without jitter.
const jitter = 1.5

// usualBackoff is what the replicas wait: 100 ms, doubling up to 30 s, and up to five minutes after a call that was
// refused.
func usualBackoff(failed *call, failures int) time.Duration {
	const doublings = 12
	wait := 100 * time.Millisecond << min(failures, doublings)
	if failed.refused() {
		wait = time.Duration(jitter * float64(wait))
	}
	return min(wait, longestBackoff(failed, failures))
}

// longestBackoff is the longest that they wait. How often they had failed before is not visible from outside.
func longestBackoff(failed *call, _ int) time.Duration {
	if failed.refused() {
		return 5 * time.Minute
	}
	return 30 * time.Second
}

// explain says until when faults explain that a pod had not left by an instant, if the next one may begin as long as
// soon after the last. They can have hidden its taints when they came: a taint without a timeAdded counts from when it
// is first seen, and a pod is due as much later as its taint was seen late.
func (h *history) explain(s stretch, end time.Time, wait backoff, soon time.Duration) explanation {
	general := h.excusesByElection()
	for _, episode := range h.episodes {
		general = append(general, oracle.Between(episode.From, episode.To.Add(catchUp)))
	}
	all := slices.Concat(
		h.excusesByCalls(s, end, wait), h.excusesByReviews(s.pod), h.excusesByGaps(s), h.excusesByClocks(s),
		h.excusesByWatches(h.led), general,
	)
	explained := chain(all, s.due, soon)
	for _, sight := range s.sights {
		// Anything that was seen late before a run led counts, too, once it leads.
		seen := chain(append(h.excusesByWatches(h.everLed), general...), sight, soon)
		if seen.touched {
			explained.until = oracle.Later(explained.until, chain(all, s.due.Add(seen.until.Sub(sight)), soon).until)
			explained.touched = true
		}
	}
	return explained
}

// chain follows excuses from an instant on, as long as each begins before the eviction had to come after the previous
// one.
func chain(excuses []span, from time.Time, soon time.Duration) explanation {
	slices.SortFunc(excuses, func(a, b span) int { return a.From.Compare(b.From) })
	explained := explanation{until: from}
	for _, e := range excuses {
		if e.To.Before(from) || e.From.After(explained.until.Add(soon)) {
			continue
		}
		explained.until, explained.touched = oracle.Later(explained.until, e.To), true
	}
	return explained
}

// excusesByCalls are the calls about the pod and its node that were slow, and the waits after those that failed.
func (h *history) excusesByCalls(s stretch, end time.Time, wait backoff) []span {
	var excuses []span
	failures := 0
	for _, c := range h.calls {
		if !s.concerns(c) || c.told.Before(s.due.Add(-time.Minute)) || c.received.After(end) {
			continue
		}
		until := c.told
		if !c.delivered() {
			until = c.told.Add(max(wait(c, failures), c.retry))
			failures++
		}
		if !c.delivered() || len(c.faults) > 0 || c.told.Sub(c.received) > haste {
			excuses = append(excuses, oracle.Between(c.received, until))
		}
	}
	return excuses
}

// concerns reports whether a call is about the pod or its node.
func (s stretch) concerns(c *call) bool {
	switch c.kind {
	case getPod:
		return c.name == s.pod.name
	case getNode:
		return c.name == s.node
	}
	return c.uid == s.pod.uid && c.writes()
}

// excusesByReviews are the times during which the webhook delayed the pod: it was asked about the pod, or other calls
// that waited for it took all slots.
func (h *history) excusesByReviews(p *pod) []span {
	if !p.guarded() {
		return nil
	}
	var excuses []span
	for _, episode := range h.reviews {
		excuses = append(excuses, episode.span)
	}
	return excuses
}

// excusesByGaps are the times during which a replica led that had not seen every change of the node's taints, and was
// right to restart their countdowns: one that began only then, or whose watch of nodes was broken.
func (h *history) excusesByGaps(s stretch) []span {
	var excuses []span
	counted := oracle.Between(slices.MinFunc(append(slices.Clone(s.sights), s.due), time.Time.Compare), s.ended)
	for _, life := range h.lives {
		led := h.led(life)
		if len(led) == 0 {
			continue
		}
		for _, gap := range h.unwatched(life, watchNodes) {
			gap.To = gap.To.Add(catchUp)
			if !gap.Meets(counted) {
				continue
			}
			due := h.dueAnew(s, gap, h.behind(life.replica, gap))
			if due.After(s.due.Add(resolution)) { // later than without the gap, and not only rounded to a second
				excuses = append(excuses, common(oracle.Between(gap.From, due), led)...)
			}
		}
	}
	return excuses
}

// excusesByClocks are the times during which the leader rightly considered the pod due later, because its clock was
// behind when a taint with an older timeAdded came.
func (h *history) excusesByClocks(s stretch) []span {
	var excuses []span
	for _, life := range h.lives {
		if led := h.led(life); len(led) > 0 {
			excuses = append(excuses, common(oracle.Between(s.due, h.dueBy(s, life.replica)), led)...)
		}
	}
	return excuses
}

// common is what a time has in common with others.
func common(within span, others []span) []span {
	var all []span
	for _, other := range others {
		part := oracle.Between(oracle.Later(within.From, other.From), oracle.Earlier(within.To, other.To))
		if part.From.Before(part.To) {
			all = append(all, part)
		}
	}
	return all
}

// dueBy says by when the pod must leave for a replica that sees each version of its node as it comes, by its own clock.
// It is the zero time if it need not.
func (h *history) dueBy(s stretch, replica string) time.Time {
	var latest time.Time
	var taints []oracle.Taint
	nodes := h.nodes[s.node]
	for i, node := range nodes {
		if node.handedBack {
			taints = nil
		}
		taints = oracle.Next(taints, oracle.Version{
			At: node.from, Taints: node.shown, Ours: node.writer == keeperUser, Behind: h.behind(replica, node.from),
		})
		if held(nodes, i, h.end).Meets(oracle.Between(s.due, s.ended)) {
			latest = oracle.Later(latest, h.dueOf(s, taints))
		}
	}
	return latest
}

// dueOf returns the latest time by which some taints require the pod to leave. It is the zero time if it need not.
func (h *history) dueOf(s stretch, taints []oracle.Taint) time.Time {
	var latest time.Time
	for i, state := range s.pod.states {
		if !held(s.pod.states, i, h.end).Meets(oracle.Between(s.due, s.ended)) {
			continue
		}
		if due, leaves := state.due(taints); leaves {
			latest = oracle.Later(latest, due.To)
		}
	}
	return latest
}

// behind is how far behind the clock of a replica was at most during a period. The replica dates by it what it first
// sees then.
func (h *history) behind(replica string, during span) time.Duration {
	var behind time.Duration
	for _, k := range h.skews {
		if k.replica == replica && k.Meets(during) {
			behind = max(behind, -k.offset)
		}
	}
	return behind
}

// unknown is how inexactly the API server's clock is known after one answer: a Date is in whole seconds.
const unknown = time.Second

// dueAnew says by when the pod must leave for a replica that first sees the node's taints during a period, with its
// clock behind. It is the zero time if it need not.
func (h *history) dueAnew(s stretch, seen span, behind time.Duration) time.Time {
	var latest time.Time
	nodes := h.nodes[s.node]
	for i, node := range nodes {
		if held(nodes, i, h.end).Meets(seen) {
			fromSight := oracle.Version{At: oracle.At(seen.To), Taints: node.shown, Behind: unknown + behind}
			latest = oracle.Later(latest, h.dueOf(s, oracle.Next(nil, fromSight)))
		}
	}
	return latest
}

// until is when a reign ended: when the next one began.
func (h *history) until(i int) time.Time {
	if i+1 < len(h.reigns) {
		return h.reigns[i+1].from
	}
	return h.end
}

// excusesByElection are the times during which nobody led: from when the leader ended, or gave the Lease back, until
// the next one had it.
func (h *history) excusesByElection() []span {
	var excuses []span
	for i, reign := range h.reigns {
		next := h.until(i)
		if ended := h.endOf(h.holders[reign.holder]); reign.holder == "" || ended.Before(next) {
			from := oracle.Earlier(oracle.Later(ended, reign.from), next)
			excuses = append(excuses, oracle.Between(from, next.Add(catchUp)))
		}
	}
	return excuses
}

// endOf is when a process ended; for an unknown one, it is the zero time.
func (h *history) endOf(p process) time.Time {
	for _, life := range h.lives {
		if life.process != p {
			continue
		}
		if life.ended.IsZero() {
			return distantFuture
		}
		return life.ended
	}
	return time.Time{}
}

// led are the times during which a process held the Lease.
func (h *history) led(of *life) []span {
	var spans []span
	for i, reign := range h.reigns {
		if h.holders[reign.holder] == of.process {
			spans = append(spans, oracle.Between(reign.from, h.until(i)))
		}
	}
	return spans
}

// everLed is all time for a process that ever held the Lease, and nothing for others.
func (h *history) everLed(of *life) []span {
	if len(h.led(of)) == 0 {
		return nil
	}
	return []span{oracle.Between(time.Time{}, distantFuture)}
}

// excusesByWatches are the times during which a watch of a replica was not in order while it mattered.
func (h *history) excusesByWatches(mattered func(*life) []span) []span {
	var excuses []span
	for _, life := range h.lives {
		for _, e := range slices.Concat(h.outOfOrder(life, watchPods), h.outOfOrder(life, watchNodes)) {
			for _, during := range mattered(life) {
				if e.Meets(during) {
					from := oracle.Later(e.From, during.From)
					excuses = append(excuses, oracle.Between(from, oracle.Earlier(e.To, during.To.Add(catchUp))))
				}
			}
		}
	}
	return excuses
}

// outOfOrder are the times during which a process had no watch, or one that was held up or had to catch up.
func (h *history) outOfOrder(life *life, kind callKind) []span {
	all := h.unwatched(life, kind)
	for _, s := range h.streams {
		if s.process == life.process && s.kind == kind {
			all = append(all, s.stalls...)
		}
	}
	for i := range all {
		all[i].To = all[i].To.Add(catchUp)
	}
	return all
}

// unwatched are the times during which a process had no watch.
func (h *history) unwatched(life *life, kind callKind) []span {
	ended := life.ended
	if ended.IsZero() {
		ended = h.end
	}
	var gaps []span
	since := life.began
	for _, s := range h.streams {
		if s.process != life.process || s.kind != kind {
			continue
		}
		if s.opened.After(since) {
			gaps = append(gaps, oracle.Between(since, s.opened))
		}
		if s.closed.IsZero() {
			return gaps
		}
		since = oracle.Later(since, s.closed)
	}
	return append(gaps, oracle.Between(since, ended))
}
