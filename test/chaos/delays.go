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

// delay is a stretch, and what explains it.
type delay struct {
	stretch

	until time.Time   // when the DELETE that ended it was sent, or when it ended otherwise
	usual explanation // by what replicas usually wait after a failure, and evict promptly once they can
}

// delays are all stretches, with what explains them.
func (h *history) delays() []delay {
	var all []delay
	for _, s := range h.stretches() {
		until := s.ended
		if s.evicted != nil {
			until = s.evicted.received
		}
		all = append(all, delay{stretch: s, until: until, usual: h.explain(s, until, usualBackoff, prompt)})
	}
	return all
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

// unexplained reports whether the eviction was later than the faults explain.
func (d delay) unexplained() bool { return d.until.Sub(d.usual.until) > prompt }

// judgeDelays finds the pods that had to leave for longer than the faults explain: those that never left, those that
// were evicted so late that the reason must be another, and those that waited for others.
func (h *history) judgeDelays() []finding {
	var found []finding
	for _, d := range h.delays() {
		weak := h.explain(d.stretch, d.until, longestBackoff, prompt)
		after := func(explained explanation) time.Duration {
			return d.until.Sub(explained.until) - h.stalled(explained.until, d.until)
		}
		as := lost
		if after(weak) <= lostAfter && !h.outlivedRecovery(d.stretch) {
			as, weak = tardy, h.explain(d.stretch, d.until, usualBackoff, lateAfter)
			if after(weak) <= lateAfter {
				continue
			}
		}
		why := fmt.Sprintf("was overdue on node %s for %s, %s; the faults explain %s of it", d.node,
			d.until.Sub(d.due).Round(time.Millisecond), d.fate(), weak.until.Sub(d.due).Round(time.Millisecond))
		found = append(found, finding{charge: as, uid: d.pod.uid, name: d.pod.name, when: d.due, until: d.until, why: why})
	}
	return found
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
