// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// line is one line of a story.
type line struct {
	when time.Time
	what string
}

// For what happened at an instant, a story tells what led to it; for a delay, mainly what caused it.
const (
	beforeInstant = 40 * time.Second
	beforeDelay   = 10 * time.Second
	storyAfter    = 5 * time.Second
)

// story is the timetable from a little before an instant of one pod, by its UID, or of one node, by its name: their
// versions, the calls about both, and what happened to the replicas and to the cluster. Times are seconds from that
// instant. It reaches to a little after until, or after the instant if that is zero.
func (h *history) story(uid types.UID, name string, instant, until time.Time) string {
	nodes := map[string]bool{name: true}
	var lines []line
	if p := h.pods[uid]; p != nil {
		lines = h.storyOfPod(p)
		for _, state := range p.states {
			nodes[state.node] = true
		}
	}
	lines = append(lines, h.storyOfNodes(nodes)...)
	for _, e := range slices.Concat(h.episodes, h.reviews) {
		lines = append(lines, line{e.From, e.what + ": begins"}, line{e.To, e.what + ": ends"})
	}
	for _, k := range h.skews {
		lines = append(lines,
			line{k.From, fmt.Sprintf("the clock of %s is wrong by %s", k.replica, k.offset.Round(time.Second))},
			line{k.To, fmt.Sprintf("the clock of %s is corrected", k.replica)})
	}
	for _, l := range h.lives {
		lines = append(lines,
			line{l.began, fmt.Sprintf("run %d of %s begins", l.run, l.replica)},
			line{l.ended, fmt.Sprintf("run %d of %s %s", l.run, l.replica, l.how)})
	}
	for _, r := range h.reigns {
		lines = append(lines, line{r.from, fmt.Sprintf("the Lease is held by %+v", h.holders[r.holder])})
	}
	lines = append(lines, h.storyOfStreams()...)
	if until.IsZero() {
		return write(lines, instant, oracle.Between(instant.Add(-beforeInstant), instant.Add(storyAfter)))
	}
	return write(lines, instant, oracle.Between(instant.Add(-beforeDelay), until.Add(storyAfter)))
}

func (h *history) storyOfPod(p *pod) []line {
	var lines []line
	for _, state := range p.states {
		lines = append(lines, line{state.from.To, fmt.Sprintf("pod %s uid %s version %d by %s: %s", p.name, short(p.uid), state.number, state.writer, state)})
	}
	for _, d := range p.deletions {
		lines = append(lines, line{d.To, "DELETE accepted by the API server, from " + d.user})
	}
	for _, c := range h.calls {
		if c.uid == p.uid || c.kind == getPod && c.name == p.name {
			lines = append(lines, line{c.received, c.String()})
		}
	}
	return lines
}

func (h *history) storyOfNodes(names map[string]bool) []line {
	var lines []line
	for name := range names {
		for _, state := range h.nodes[name] {
			lines = append(lines, line{state.from.To, fmt.Sprintf("node %s version %d by %s: %s", name, state.number, state.writer, taintsText(state.taints))})
		}
	}
	for _, c := range h.calls {
		if (c.kind == getNode || c.kind == patchNode) && names[c.name] {
			lines = append(lines, line{c.received, c.String()})
		}
	}
	return lines
}

func (h *history) storyOfStreams() []line {
	var lines []line
	for _, s := range h.streams {
		name := fmt.Sprintf("%s of run %d of %s", s.kind, s.run, s.replica)
		lines = append(lines, line{s.opened, name + " opens"}, line{s.closed, name + " ends"})
		for _, held := range s.stalls {
			lines = append(lines, line{held.From, fmt.Sprintf("%s is held up for %s", name, held.To.Sub(held.From).Round(time.Millisecond))})
		}
	}
	return lines
}

func write(lines []line, zero time.Time, within span) string {
	slices.SortStableFunc(lines, func(a, b line) int { return a.when.Compare(b.when) })
	var text strings.Builder
	fmt.Fprintf(&text, "      times in seconds from %s\n", zero.UTC().Format("15:04:05.000000"))
	for _, l := range lines {
		if !l.when.Before(within.From) && !l.when.After(within.To) {
			fmt.Fprintf(&text, "    %10.3f  %s\n", l.when.Sub(zero).Seconds(), l.what)
		}
	}
	return text.String()
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
		if t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute {
			text += ", " + tolerationText(t)
		}
	}
	return text
}

func tolerationText(t corev1.Toleration) string {
	text := fmt.Sprintf("%s %s", t.Key, t.Operator)
	if t.Value != "" {
		text += " " + t.Value
	}
	if t.TolerationSeconds == nil {
		return "[" + strings.TrimSpace(text) + " forever]"
	}
	return fmt.Sprintf("[%s %d s]", strings.TrimSpace(text), *t.TolerationSeconds)
}

func taintsText(taints []oracle.Taint) string {
	if len(taints) == 0 {
		return "no NoExecute taints"
	}
	var texts []string
	for _, t := range taints {
		added := "none"
		if !t.TimeAdded.IsZero() {
			added = t.TimeAdded.UTC().Format(time.TimeOnly)
		}
		texts = append(texts, fmt.Sprintf("%s (timeAdded %s, counts from %s)", t.ToString(), added, clock(t.Since)))
	}
	return strings.Join(texts, ", ")
}

func clock(s span) string {
	return s.From.UTC().Format("15:04:05.000") + " to " + s.To.UTC().Format("05.000")
}
