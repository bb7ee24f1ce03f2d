// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
)

// shown is a minimal history in which upstream differs because of one quirk.
type shown struct {
	history history
	because quirks
	node    string
}

func TestEachQuirkAloneMakesUpstreamDiffer(t *testing.T) {
	nodes := func(zone string, count int) []nodeSpec {
		var all []nodeSpec
		for i := range count {
			// Each renews before the one after it, so that each falls silent before it.
			all = append(all, nodeSpec{Name: zone + string(rune('1'+i)), Zone: zone, Phase: time.Duration(i)*sec + 90*ms + time.Duration(zone[0]-'a')*ms/4})
		}
		return all
	}
	for name, s := range map[string]shown{
		"a restart takes a taint off and puts it back later": {
			history: history{Nodes: nodes("a", 4), Start: sec, Steps: []step{
				{20098 * ms, ready{"a1", corev1.ConditionFalse}}, {21098 * ms, ready{"a2", corev1.ConditionFalse}},
				{60098 * ms, restart{}},
			}},
			because: startOff, node: "a2",
		},
		"a heartbeat that came alone makes silence begin a period later": {
			history: history{Nodes: nodes("a", 3), Start: sec, Steps: []step{
				{67098 * ms, fall{[]string{"a2"}}}, {150098 * ms, cordon{"a3", false}},
			}},
			because: leaseForgotten, node: "a2",
		},
		"who fell first is not tainted first": {
			history: history{Nodes: nodes("a", 8), Start: sec, Steps: []step{
				{20098 * ms, ready{"a5", corev1.ConditionFalse}}, {22098 * ms, ready{"a4", corev1.ConditionFalse}}, {27098 * ms, ready{"a3", corev1.ConditionFalse}},
			}},
			because: passOrder, node: "a3",
		},
		"a node that is ready again uses up a token": {
			history: history{Nodes: nodes("a", 8), Start: sec, Steps: []step{
				{20098 * ms, ready{"a1", corev1.ConditionFalse}}, {22098 * ms, ready{"a2", corev1.ConditionFalse}}, {24098 * ms, ready{"a3", corev1.ConditionFalse}},
				{31098 * ms, ready{"a2", corev1.ConditionTrue}},
			}},
			because: wastedTokens, node: "a3",
		},
		"a zone that grows large while it is disrupted keeps the rate of a small one": {
			history: history{Nodes: append(nodes("a", 4), nodes("b", 1)...), Start: sec, Steps: []step{
				{20098 * ms, ready{"a1", corev1.ConditionFalse}}, {21098 * ms, ready{"a2", corev1.ConditionFalse}}, {22098 * ms, ready{"a3", corev1.ConditionFalse}},
				{40098 * ms, addNode{nodeSpec{Name: "a5", Zone: "a", Phase: 95 * ms, Created: 40 * sec}}},
			}},
			because: stateOnly, node: "a2",
		},
		"a node without a kubelet inherits the silence of the previous node with its name": {
			history: history{Nodes: append(nodes("a", 3), nodeSpec{Name: "m", Zone: "a", Phase: 95 * ms, Absent: true}), Start: sec, Steps: []step{
				{50098 * ms, removeNode{"m"}}, {52098 * ms, addNode{nodeSpec{Name: "m", Zone: "a", Phase: 95 * ms, Created: 52 * sec, Absent: true}}},
			}},
			because: byName, node: "m",
		},
		"a taint that somebody sets while all zones are disrupted stays": {
			history: history{Nodes: nodes("a", 2), Start: sec, Steps: []step{
				{20098 * ms, ready{"a1", corev1.ConditionFalse}}, {21098 * ms, ready{"a2", corev1.ConditionFalse}},
				{60098 * ms, taint{"a1", corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute}},
			}},
			because: offOnce, node: "a1",
		},
		"a zone that is disrupted for a moment waits for its next token from the start": {
			history: history{Nodes: append(nodes("a", 4), nodes("b", 1)...), Start: sec, Steps: []step{
				{20098 * ms, ready{"a1", corev1.ConditionFalse}}, {21098 * ms, ready{"a2", corev1.ConditionFalse}},
				{23098 * ms, ready{"a3", corev1.ConditionFalse}}, {29098 * ms, ready{"a3", corev1.ConditionTrue}},
			}},
			because: newLimiter, node: "a2",
		},
		"a restart gives a token": {
			history: history{Nodes: nodes("a", 4), Start: sec, Steps: []step{
				{20098 * ms, ready{"a1", corev1.ConditionFalse}}, {22098 * ms, restart{}}, {23098 * ms, ready{"a2", corev1.ConditionFalse}},
			}},
			because: tokenAtStart, node: "a2",
		},
		"a node from which nothing was ever heard has another grace period each time another recovers": {
			history: history{Nodes: append(nodes("a", 1), nodeSpec{Name: "m", Zone: "a", Phase: 95 * ms, Absent: true}), Start: sec, Steps: []step{
				{20098 * ms, ready{"a1", corev1.ConditionFalse}}, {40098 * ms, ready{"a1", corev1.ConditionTrue}},
			}},
			because: graceForUnheard, node: "m",
		},
		"the countdown of pods begins again when not ready becomes unreachable": {
			history: history{Nodes: nodes("a", 3), Start: sec, Steps: []step{
				{20098 * ms, ready{"a1", corev1.ConditionFalse}}, {21098 * ms, fall{[]string{"a1"}}},
			}},
			because: newTimeAdded, node: "a1",
		},
		"a silent node stays ready after a write to its Lease that does not renew it": {
			history: history{Nodes: nodes("a", 3), Start: sec, Steps: []step{
				{20098 * ms, fall{[]string{"a1"}}}, {40098 * ms, touch{"a1"}}, {200098 * ms, cordon{"a3", false}},
			}},
			because: leaseWritten, node: "a1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial := contest{ours, upstream}.try(t, &s.history)
			for _, fault := range trial.Faults() {
				t.Error(fault)
			}
			without := predictUpstream(&s.history, trial.passes, all&^s.because)[s.node]
			if equal(without, trial.upstream[s.node]) {
				t.Errorf("without %q the model does as upstream did, too: %s", s.because, without)
			}
			if equal(trial.ours[s.node], trial.upstream[s.node]) {
				t.Error("ours does as upstream did")
			}
			if t.Failed() {
				t.Log("\n" + trial.Timetable())
			}
		})
	}
}

// What no history shows, because no model of it would be certain or because its set-up differs.

// client-go's limiter that never gives a token says that its rate is 1, so SwapLimiter takes a limiter
// of one node per second for the one that it has (flowcontrol.fakeNeverRateLimiter.QPS).
func TestAfterADisruptionUpstreamNeverTaintsAgainAtOneNodePerSecond(t *testing.T) {
	h := &history{Nodes: []nodeSpec{{Name: "a", Zone: "a", Phase: 90 * ms}, {Name: "b", Zone: "a", Phase: 1091 * ms}}, Start: sec, Steps: []step{
		{20098 * ms, ready{"a", corev1.ConditionFalse}}, {21098 * ms, ready{"b", corev1.ConditionFalse}}, {40098 * ms, ready{"a", corev1.ConditionTrue}},
	}}
	for _, test := range []struct {
		rate float32
		want bool
	}{{1, false}, {0.5, true}} {
		looks := play(t, h, func(ctx context.Context, w *world) error { return runUpstream(ctx, w, test.rate) }).looks["b"]
		if got := looks[len(looks)-1].noExecute != ""; got != test.want {
			t.Errorf("at %v nodes per second b is tainted in the end: %t, want %t", test.rate, got, test.want)
		}
	}
	looks := play(t, h, ourselves(func(c *nodehealth.Config) { c.Policy.Rate, c.Policy.FullDisruptionRate = 1, 1 })).looks["b"]
	if looks[len(looks)-1].noExecute == "" {
		t.Error("ours does not taint b at one node per second")
	}
}

// A zone whose nodes are all excluded from disruption checks is no zone to handleDisruption, which
// drops its state, so that the next pass makes it a new queue: nodes that are tainted already are
// queued again, and take the only token of a pass from those that are not.
func TestOfNodesThatAreAllExcludedUpstreamTaintsNoneButTheFirst(t *testing.T) {
	h := &history{Start: sec}
	for i := range 4 {
		name := "a" + string(rune('1'+i))
		h.Nodes = append(h.Nodes, nodeSpec{Name: name, Zone: "a", Phase: 90*ms + time.Duration(i)*ms, Excluded: true})
		h.Steps = append(h.Steps, step{time.Duration(20+i)*sec + 98*ms, ready{name, corev1.ConditionFalse}})
	}
	for name, test := range map[string]struct {
		contestant contestant
		want       int
	}{"ours": {ours, 4}, "upstream": {upstream, 1}} {
		tainted := 0
		for _, looks := range play(t, h, test.contestant).looks {
			if looks[len(looks)-1].noExecute != "" {
				tainted++
			}
		}
		if tainted != test.want {
			t.Errorf("%s has tainted %d of four nodes after %s, want %d", name, tainted, h.end(), test.want)
		}
	}
}
