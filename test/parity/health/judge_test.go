// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// trial is one history, run with both contestants.
type trial struct {
	history        *history
	ours, upstream outcome
	passes         []time.Duration // upstream's
	rule, model    outcome         // what the rule says about ours, and the model with all quirks of upstream
}

// contest is who plays. A trial of wrong contestants shows that the checker can fail.
type contest struct{ ours, upstream contestant }

func (c contest) series() arena.Series[*history, *trial] {
	return arena.Series[*history, *trial]{Folder: "health", Generate: generate, Try: c.try, Reductions: reductions, Often: 100}
}

func (c contest) try(t *testing.T, h *history) *trial {
	t.Helper()
	ours, upstream := play(t, h, c.ours), play(t, h, c.upstream)
	return &trial{
		history: h, ours: ours.looks, upstream: upstream.looks, passes: upstream.passes,
		rule: predictOurs(h, ours.looks), model: predictUpstream(h, upstream.passes, all),
	}
}

const (
	oursBreaksTheRule     arena.Kind = "ours differs from the rule"
	upstreamIsUnexplained arena.Kind = "upstream differs from the model of it"
	unexplained           arena.Kind = "ours and upstream differ, and no set of quirks explains it"
)

// Faults implements arena.Trial, in the order of the nodes.
func (t *trial) Faults() []arena.Fault {
	var faults []arena.Fault
	explanation := t.explain()
	for _, name := range t.names() {
		if !equal(t.ours[name], t.rule[name]) {
			faults = append(faults, arena.Fault{Kind: oursBreaksTheRule, Name: name})
		}
		if !equal(t.upstream[name], t.model[name]) {
			faults = append(faults, arena.Fault{Kind: upstreamIsUnexplained, Name: name})
		} else if _, ok := explanation[name]; !ok {
			faults = append(faults, arena.Fault{Kind: unexplained, Name: name})
		}
	}
	return faults
}

// names returns the nodes of the history.
func (t *trial) names() []string {
	names := map[string]bool{}
	for _, spec := range t.history.specs() {
		names[spec.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// agreement is whether ours and upstream agree about a node, and which quirks explain what upstream does.
type agreement struct {
	agree  bool // the same looks in the same order, each within the tolerance
	quirks quirks
}

// explain finds, for each node, the smallest set of quirks with which a controller that acts in passes
// does as upstream did. A node about which both agree needs none.
func (t *trial) explain() map[string]agreement {
	found := map[string]agreement{}
	var open []string
	for _, name := range t.names() {
		if agree(t.ours[name], t.upstream[name]) {
			found[name] = agreement{agree: true}
			continue
		}
		open = append(open, name)
	}
	for _, set := range bySize {
		if len(open) == 0 {
			break
		}
		predicted := predictUpstream(t.history, t.passes, set)
		open = slices.DeleteFunc(open, func(name string) bool {
			explained := equal(predicted[name], t.upstream[name])
			if explained {
				found[name] = agreement{quirks: set}
			}
			return explained
		})
	}
	return found
}

// tolerance is how much later than ours upstream may do the same, so that both agree. Ours counts silence from when a
// sign of life came and acts when the grace period is over. Upstream sees the sign in the next pass, within a period.
// The grace period is a multiple of it, and a pass comes a few microseconds later than a period after the last, so the
// pass in which it is over finds it over. A token is then taken at the next tick, and each token before it was late by
// a tick as well: a zone of a history has ten nodes at most. Ours in turn finds silence with its next echo, and comes
// back a millisecond late.
const tolerance = period + 11*tick

// agree reports whether upstream does what ours does, somewhat later. What depends on more than the
// node's own readiness, its NoExecute taints, may come later than the rest.
func agree(ours, upstream []look) bool {
	for _, part := range []func(look) look{
		func(l look) look { return look{at: l.at, gone: l.gone, ready: l.ready, noSchedule: l.noSchedule} },
		func(l look) look { return look{at: l.at, gone: l.gone, noExecute: l.noExecute, since: l.since} },
	} {
		if !slices.EqualFunc(aspect(ours, part), aspect(upstream, part), func(a, b look) bool {
			late := b.at - a.at
			return a.same(b, tolerance+resolution) && late >= -exactly-echoEach && late <= tolerance
		}) {
			return false
		}
	}
	return true
}

// aspect reduces looks to one part of them, and returns those at which that part changed.
func aspect(looks []look, part func(look) look) []look {
	var found []look
	for _, l := range looks {
		if next := part(l); len(found) == 0 || !found[len(found)-1].same(next, 0) {
			found = append(found, next)
		}
	}
	return found
}
