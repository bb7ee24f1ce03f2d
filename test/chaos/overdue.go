// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// stretch is a time during which a pod had to leave without interruption: from when it was due until it left or could
// stay.
type stretch struct {
	pod     *pod
	node    string
	sights  []time.Time // when the taints that made it due could first be seen
	due     time.Time
	ended   time.Time
	evicted *call // that ended it, if one did
	open    bool  // it had not ended when the observer did
}

// stretches are the times during which pods had to leave for certain: with the latest bounds of everything.
func (h *history) stretches() []stretch {
	var all []stretch
	for _, p := range h.pods {
		for i := range p.states {
			all = append(all, h.stretchesOf(p, i)...)
		}
	}
	merged := merge(all)
	slices.SortFunc(merged, func(a, b stretch) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.pod.uid, b.pod.uid))
	})
	accepted := h.evictions()
	for i := range merged {
		merged[i].evicted = accepted[merged[i].pod.uid]
		c := merged[i].evicted
		if c != nil && (c.received.Before(merged[i].due) || c.forwarded.After(merged[i].ended.Add(haste))) {
			merged[i].evicted = nil
		}
	}
	return merged
}

// evictions returns, for each pod, the first DELETE that the API server accepted.
func (h *history) evictions() map[types.UID]*call {
	first := map[types.UID]*call{}
	for _, c := range h.calls {
		if c.kind == deletePod && c.accepted() && first[c.uid] == nil {
			first[c.uid] = c
		}
	}
	return first
}

// stretchesOf returns the parts of one state of a pod during which it was overdue, one for each state of its node.
func (h *history) stretchesOf(p *pod, i int) []stretch {
	state := p.states[i]
	if state.terminating || state.mirror || state.node == "" {
		return nil
	}
	within := oracle.Between(state.from.To, h.end)
	if i+1 < len(p.states) {
		within.To = p.states[i+1].from.From
	}
	var found []stretch
	nodes := h.nodes[state.node]
	for j, node := range nodes {
		during := oracle.Between(oracle.Later(within.From, node.from.To), within.To)
		if j+1 < len(nodes) {
			during.To = oracle.Earlier(during.To, nodes[j+1].from.From)
		}
		due, leaves := state.due(node.taints)
		if from := oracle.Later(due.To, during.From); leaves && from.Before(during.To) {
			found = append(found, stretch{
				pod: p, node: state.node, sights: sights(node.taints),
				due: from, ended: during.To, open: during.To.Equal(h.end),
			})
		}
	}
	return found
}

// sights are when the taints could be seen first, and the values that they had before.
func sights(taints []oracle.Taint) []time.Time {
	var all []time.Time
	for _, taint := range taints {
		all = append(all, taint.Seen.To)
		for _, value := range taint.Values {
			all = append(all, value.Seen.To)
		}
	}
	return all
}

// merge joins stretches that follow one another with no more between them than the time that a write may have taken.
func merge(parts []stretch) []stretch {
	slices.SortFunc(parts, func(a, b stretch) int {
		return cmp.Or(cmp.Compare(a.pod.uid, b.pod.uid), a.due.Compare(b.due))
	})
	var merged []stretch
	for _, part := range parts {
		last := len(merged) - 1
		if last >= 0 && merged[last].pod == part.pod && part.due.Sub(merged[last].ended) < haste {
			merged[last].ended, merged[last].open = part.ended, part.open
			continue
		}
		merged = append(merged, part)
	}
	return merged
}

// late is an eviction, and how late it was.
type late struct {
	stretch

	by          time.Duration
	explanation explanation
}

// lateness returns how late each eviction of a replica was, latest first.
func (h *history) lateness() []late {
	var all []late
	for _, s := range h.stretches() {
		if s.evicted != nil {
			all = append(all, late{
				stretch: s, by: max(0, s.evicted.answered.Sub(s.due)),
				explanation: h.explain(s, s.evicted.answered, usualBackoff),
			})
		}
	}
	slices.SortFunc(all, func(a, b late) int { return cmp.Compare(b.by, a.by) })
	return all
}

// unexplained reports whether the eviction was later than the faults explain.
func (l late) unexplained() bool {
	return l.evicted.received.Sub(l.explanation.until) > prompt
}

// resolution is how much later an eviction can be after a restart than without one: timeAdded is in whole seconds.
const resolution = time.Second

// prompt is how soon an eviction must come when nothing delays it any longer.
const prompt = resolution + haste

const (
	// lostAfter is how long after everything that explains a delay a pod must have left, or else it was forgotten.
	lostAfter = 10 * time.Second
	// lateAfter is how long after everything that touched it a pod must have left, whatever happened to others meanwhile.
	lateAfter = stall.Bound
)

// judgeDelays finds the pods that had to leave for longer than the faults explain: those that never left, those that
// were evicted so late that the reason must be another, and those that waited for others.
func (h *history) judgeDelays() []finding {
	var found []finding
	for _, s := range h.stretches() {
		ended := s.ended
		if s.evicted != nil {
			ended = s.evicted.received
		}
		as, explained := h.delayed(s, ended)
		if as == "" {
			continue
		}
		why := fmt.Sprintf("was overdue on node %s for %s, %s; the faults explain %s of it", s.node,
			ended.Sub(s.due).Round(time.Millisecond), s.fate(), explained.until.Sub(s.due).Round(time.Millisecond))
		found = append(found, finding{charge: as, uid: s.pod.uid, name: s.pod.name, when: s.due, until: ended, why: why})
	}
	return found
}

// delayed returns the charge against a replica that had not evicted a pod by an instant, and the excuse that is too
// weak.
func (h *history) delayed(s stretch, ended time.Time) (charge, explanation) {
	explained := h.explain(s, ended, longestBackoff)
	if ended.Sub(explained.until)-h.stalled(explained.until, ended) > lostAfter || h.outlivedRecovery(s) {
		return lost, explained
	}
	explained = h.explain(s, ended, usualBackoff)
	if ended.Sub(explained.until)-h.stalled(explained.until, ended) > lateAfter {
		return tardy, explained
	}
	return "", explained
}

// outlivedRecovery reports whether a pod is still there after the longest recovery, whatever explains it.
func (h *history) outlivedRecovery(s stretch) bool {
	return s.open && s.ended.Sub(s.due) > lostAfter && h.end.Sub(h.calm) >= longestRecovery
}

func (s stretch) fate() string {
	switch {
	case s.evicted != nil:
		return "and then was deleted after all"
	case s.open:
		return "and is still there"
	}
	return "and was not deleted before it no longer had to leave"
}
