// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

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
	ours, upstream outcome // of upstream without the repeats
	repeats        int     // pods that upstream deleted twice at its start
	rule, model    outcome // what the rule says, and the rule with all of upstream's defects
	timers         outcome // what the plugin says of upstream
}

// contest is who plays. A trial of wrong contestants shows that the checker can fail.
type contest struct{ ours, upstream contestant }

func (c contest) series() arena.Series[*history, *trial] {
	return arena.Series[*history, *trial]{Folder: "evictions", Generate: generate, Try: c.try, Reductions: reductions, Often: 1000}
}

func (c contest) try(t *testing.T, h *history) *trial {
	t.Helper()
	upstream, repeats := withoutRepeats(h, play(t, h, c.upstream))
	return &trial{
		history: h,
		ours:    play(t, h, c.ours), upstream: upstream, repeats: repeats,
		rule: predict(h, none), model: predict(h, all), timers: predictByTimers(h),
	}
}

// withoutRepeats drops the second of two deletes at the very instant of a start, and counts them.
// When it starts, upstream looks at each pod up to two times, once for its node and once for the
// pod itself, as its goroutines happen to run: a pod that has a grace period and must leave at
// once is usually deleted twice. No model can say when, so this is counted instead.
func withoutRepeats(h *history, played outcome) (outcome, int) {
	once, repeats := outcome{}, 0
	for uid, deletes := range played {
		for i, at := range deletes {
			if i > 0 && at == deletes[i-1] && h.startsAt(at) && (i < 2 || at != deletes[i-2]) {
				repeats++
				continue
			}
			once.note(uid, at)
		}
	}
	return once, repeats
}

// exactly is how far two equal instants may be apart: in virtual time nothing takes time.
const exactly = 5 * ms

// roughly is how far apart two instants that agree to the second may be.
const roughly = sec

// near reports whether two lists of instants are the same, except that two instants may be the given time apart.
func near(a, b []time.Duration, apart time.Duration) bool {
	return slices.EqualFunc(a, b, func(a, b time.Duration) bool { return (a - b).Abs() <= apart })
}

const (
	oursBreaksTheRule     arena.Kind = "ours differs from the rule"
	upstreamIsUnexplained arena.Kind = "upstream differs from the model of it"
	timersAreWrong        arena.Kind = "upstream differs from builtin.Timers, by which the plugin answers"
	bothShouldAgree       arena.Kind = "ours and upstream differ, though the rule and the model of upstream agree"
)

// Faults implements arena.Trial, in the order of the pods.
func (t *trial) Faults() []arena.Fault {
	var faults []arena.Fault
	for _, uid := range t.uids() {
		if !near(t.ours[uid], t.rule[uid], exactly) {
			faults = append(faults, arena.Fault{Kind: oursBreaksTheRule, Name: uid})
		}
		if !near(t.upstream[uid], t.model[uid], exactly) {
			faults = append(faults, arena.Fault{Kind: upstreamIsUnexplained, Name: uid})
		}
		if !near(t.upstream[uid], t.timers[uid], exactly) {
			faults = append(faults, arena.Fault{Kind: timersAreWrong, Name: uid})
		}
		if near(t.rule[uid], t.model[uid], roughly) && !near(t.ours[uid], t.upstream[uid], roughly) {
			faults = append(faults, arena.Fault{Kind: bothShouldAgree, Name: uid})
		}
	}
	return faults
}

// uids returns the pods of the history, and whatever else was deleted.
func (t *trial) uids() []string {
	uids := map[string]bool{}
	for _, spec := range t.history.specs() {
		uids[spec.UID] = true
	}
	for _, o := range []outcome{t.ours, t.upstream, t.rule, t.model} {
		for uid := range o {
			uids[uid] = true
		}
	}
	return slices.Sorted(maps.Keys(uids))
}

// explanation says about each pod which defects of upstream make the difference; none for a pod for which upstream does
// what the rule says, to the second.
type explanation map[string]defects

// explain finds, for each pod that upstream treats differently from the rule, the smallest set of defects with which
// the model does as upstream did: single ones first, then pairs, and so on.
func (t *trial) explain() explanation {
	found := explanation{}
	var open []string
	for _, uid := range t.uids() {
		if near(t.rule[uid], t.upstream[uid], roughly) {
			found[uid] = none
		} else {
			open = append(open, uid)
		}
	}
	for _, set := range bySize {
		if len(open) == 0 {
			break
		}
		predicted := predict(t.history, set)
		open = slices.DeleteFunc(open, func(uid string) bool {
			explained := near(predicted[uid], t.upstream[uid], exactly)
			if explained {
				found[uid] = set
			}
			return explained
		})
	}
	return found
}
