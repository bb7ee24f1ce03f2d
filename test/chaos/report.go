// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// mostStories bounds how many stories are told of one kind; the counts are complete.
const mostStories = 5

type sayer func(format string, args ...any)

// report writes what happened and what is found, and returns whether nothing went wrong. What went wrong comes first,
// as not everything that shows the output of a test shows all of it.
func (h *history) report(out io.Writer) (clean bool) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	found, count := h.judge(), map[charge]int{}
	for _, f := range found {
		if count[f.charge]++; count[f.charge] <= mostStories {
			say("\n  %s: %s: %s\n%s", f.charge, f.name, f.why, h.story(f))
		}
	}
	h.reportFaults(say)
	evicted := h.reportPods(say)
	h.reportLateness(say)
	say("\nVerdict")
	for _, c := range charges {
		say("  %-7s %d", c, count[c])
	}
	if evicted == 0 {
		say("\nNothing was evicted, so this proves nothing: use a longer -duration.")
	}
	return len(found) == 0 && evicted > 0
}

func (h *history) reportFaults(say sayer) {
	total := 0
	say("\nFaults injected")
	for _, kind := range faultKinds() {
		say("  %6d  %s", h.injected[kind], kind)
		total += h.injected[kind]
	}
	say("  %6d  in all, in %d calls", total, len(h.calls))
	say("\nDisruptions")
	for _, d := range slices.Concat(wrecks, endings) {
		say("  %6d  %s", h.injected[d.name], d.name)
	}
	say("  %6d  changes of leader", len(h.reigns))
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
	say("\nPods")
	say("  %6d  existed", len(h.pods))
	say("  %6d  evicted", evicted)
	say("  %6d  evicted by the built-in", foreign)
	say("  %6d  deleted by others first", others)
	say("  %6d  stayed to the end", stayed)
	return evicted
}

// ended reports whether a DELETE of a replica reached the API server and nobody knows its answer, and no other is
// known.
func (h *history) ended(p *pod) bool {
	return len(p.deletions) == 0 && slices.ContainsFunc(h.calls, func(c *call) bool {
		return c.kind == deletePod && c.uid == p.uid && !c.forwarded.IsZero() && c.answer == 0
	})
}

func (h *history) reportLateness(say sayer) {
	var guarded, touched, untouched []time.Duration
	var unexplained []delay
	for _, d := range h.delays() {
		if d.evicted == nil {
			continue
		}
		if d.unexplained() {
			unexplained = append(unexplained, d)
		}
		switch by := max(0, d.evicted.answered.Sub(d.due)); {
		case d.pod.guarded():
			guarded = append(guarded, by)
		case d.usual.touched:
			touched = append(touched, by)
		default:
			untouched = append(untouched, by)
		}
	}
	say("\nLateness: from due until the API server had accepted the DELETE")
	say("  %s  not touched by a fault", quantiles(untouched))
	say("  %s  touched by one", quantiles(touched))
	say("  %s  pods that the webhook selects", quantiles(guarded))
	say("  %6d  later than the faults explain", len(unexplained))
	slices.SortStableFunc(unexplained, func(a, b delay) int { return cmp.Compare(b.until.Sub(b.due), a.until.Sub(a.due)) })
	for _, d := range unexplained[:min(len(unexplained), mostStories)] {
		say("\n  not explained: pod %s left node %s %s after it was due; the faults explain %s of it", d.pod.name, d.node,
			d.evicted.answered.Sub(d.due).Round(time.Millisecond), d.usual.until.Sub(d.due).Round(time.Millisecond))
		say("%s", h.story(finding{uid: d.pod.uid, name: d.node, when: d.due, until: d.until}))
	}
}

func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return fmt.Sprintf("%6d", 0)
	}
	slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	q := func(share float64) time.Duration {
		return all[len(all)-1-int(share*float64(len(all)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%6d evicted, half within %s, 9 in 10 within %s, 99 in 100 within %s, all within %s", len(all), q(0.5), q(0.9), q(0.99), q(1))
}

// For what happened at an instant, a story tells what led to it; for a delay, mainly what caused it.
const (
	beforeInstant = 40 * time.Second
	beforeDelay   = 10 * time.Second
	storyAfter    = 5 * time.Second
)

// story is what happened around a finding.
type story struct {
	span

	lines []line
}

type line struct {
	when time.Time
	what string
}

func (s *story) tell(when time.Time, format string, args ...any) {
	if !when.Before(s.From) && !when.After(s.To) {
		s.lines = append(s.lines, line{when, fmt.Sprintf(format, args...)})
	}
}

// story is the timetable of what is found, of one pod or of one node: their versions, the calls about both, and what
// happened to the replicas and to the cluster. Times are seconds from the instant of the finding.
func (h *history) story(f finding) string {
	s := &story{span: oracle.Between(f.when.Add(-beforeInstant), f.when.Add(storyAfter))}
	if !f.until.IsZero() {
		s.span = oracle.Between(f.when.Add(-beforeDelay), f.until.Add(storyAfter))
	}
	nodes := map[string]bool{f.name: true}
	if p := h.pods[f.uid]; p != nil {
		for _, state := range p.states {
			nodes[state.node] = true
		}
		h.tellOfPod(s, p)
	}
	h.tellOfNodes(s, nodes)
	h.tellOfReplicas(s)
	slices.SortStableFunc(s.lines, func(a, b line) int { return a.when.Compare(b.when) })
	var text strings.Builder
	fmt.Fprintf(&text, "      times in seconds from %s\n", f.when.UTC().Format("15:04:05.000000"))
	for _, l := range s.lines {
		fmt.Fprintf(&text, "    %10.3f  %s\n", l.when.Sub(f.when).Seconds(), l.what)
	}
	return text.String()
}

func (h *history) tellOfPod(s *story, p *pod) {
	for _, state := range p.states {
		s.tell(state.from.To, "pod %s uid %s version %d by %s: %s", p.name, short(p.uid), state.number, state.writer, state)
	}
	for _, d := range p.deletions {
		s.tell(d.To, "DELETE accepted by the API server, from %s", d.user)
	}
	for _, c := range h.calls {
		if c.uid == p.uid || c.kind == getPod && c.name == p.name {
			s.tell(c.received, "%s", c)
		}
	}
}

func (h *history) tellOfNodes(s *story, names map[string]bool) {
	for name := range names {
		for _, state := range h.nodes[name] {
			s.tell(state.from.To, "node %s version %d by %s: %s", name, state.number, state.writer, taintsText(state.taints))
		}
	}
	for _, c := range h.calls {
		if (c.kind == getNode || c.kind == patchNode) && names[c.name] {
			s.tell(c.received, "%s", c)
		}
	}
}

func (h *history) tellOfReplicas(s *story) {
	for _, e := range slices.Concat(h.episodes, h.reviews) {
		s.tell(e.From, "%s: begins", e.what)
		s.tell(e.To, "%s: ends", e.what)
	}
	for _, k := range h.skews {
		s.tell(k.From, "the clock of %s is wrong by %s", k.replica, k.offset.Round(time.Second))
		s.tell(k.To, "the clock of %s is corrected", k.replica)
	}
	for _, l := range h.lives {
		s.tell(l.began, "run %d of %s begins", l.run, l.replica)
		s.tell(l.ended, "run %d of %s %s", l.run, l.replica, l.how)
	}
	for _, r := range h.reigns {
		s.tell(r.from, "the Lease is held by %+v", h.holders[r.holder])
	}
	for _, w := range h.streams {
		name := fmt.Sprintf("%s of run %d of %s", w.kind, w.run, w.replica)
		s.tell(w.opened, "%s opens", name)
		s.tell(w.closed, "%s ends", name)
		for _, held := range w.stalls {
			s.tell(held.From, "%s is held up for %s", name, held.To.Sub(held.From).Round(time.Millisecond))
		}
	}
}

func (s podState) String() string {
	text := "on node " + s.node
	switch {
	case s.terminating:
		text = "terminating or gone"
	case s.node == "":
		text = "not bound"
	}
	if s.mirror {
		text += ", a mirror pod"
	}
	text += fmt.Sprintf(", bound %s", clock(s.bound))
	for _, t := range s.tolerations {
		switch {
		case t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute:
		case t.TolerationSeconds == nil:
			text += fmt.Sprintf(", [%s %s %s forever]", t.Key, t.Operator, t.Value)
		default:
			text += fmt.Sprintf(", [%s %s %s %d s]", t.Key, t.Operator, t.Value, *t.TolerationSeconds)
		}
	}
	return text
}

func taintsText(taints []oracle.Taint) string {
	texts := []string{"NoExecute taints:"}
	for _, t := range taints {
		added := "none"
		if !t.TimeAdded.IsZero() {
			added = t.TimeAdded.UTC().Format(time.TimeOnly)
		}
		texts = append(texts, fmt.Sprintf("%s (timeAdded %s, counts from %s)", t.ToString(), added, clock(t.Since)))
	}
	return strings.Join(texts, " ")
}

func clock(s span) string {
	return s.From.UTC().Format("15:04:05.000") + " to " + s.To.UTC().Format("05.000")
}

// short is the beginning of a UID, enough to tell the pods of one story apart.
func short(uid types.UID) string { return string(uid[:min(len(uid), 8)]) }
