// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// What random histories of evictions do not reach.

// Here upstream's node-lifecycle controller itself sets the taints, and swaps them, as a kubelet becomes not ready or
// silent. The pods have the tolerations that the API server gives to every pod.
func TestUpstreamsOwnTaintsEvictInTimeWithBoth(t *testing.T) { //nolint:gocyclo // a table of stories
	const began, comes, tolerated = 60098 * ms, 605 * sec, 300 * sec
	after := func(d time.Duration, do action) step { return step{began + d, do} }
	silent, unready, healthy := fall{[]string{"sick"}}, notReady(0, "sick").Do, ready(0, "sick").Do
	var alternating []step
	for d := 240 * sec; d < 2*time.Hour; d += 480 * sec {
		alternating = append(alternating, after(d-50*sec, silent), after(d+240*sec, resume{"sick"})) // not ready as before
	}
	type leaves struct{ ours, upstream time.Duration } // after the first NoExecute taint
	for name, test := range map[string]struct {
		steps []step
		again bool // the second NoExecute taint counts, because the node was ready before it
		want  leaves
	}{
		"not ready, then silent":                          {steps: []step{after(200*sec, silent)}, want: leaves{tolerated, tolerated}},
		"now not ready, now silent, for two hours":        {steps: alternating, want: leaves{tolerated, tolerated}},
		"ready between the two":                           {steps: []step{after(200*sec, healthy), after(230*sec, silent)}, again: true, want: leaves{tolerated, tolerated}},
		"a restart of what evicts after the swap, at 280": {steps: []step{after(200*sec, silent), after(286*sec, restart{})}, want: leaves{tolerated, 580 * sec}},
	} {
		for who, evicts := range map[string]contestant{"ours": ours, "upstream": upstream} {
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				pod := running("p", "sick", slices.Concat(tolerating(corev1.TaintNodeNotReady, 300), tolerating(corev1.TaintNodeUnreachable, 300))...)
				later := pod // its binding counts
				later.UID, later.Name, later.Created, later.Scheduled = "q", "q", began+comes, new(began+comes)
				h := &history{Start: sec, Pods: []podSpec{pod}, Steps: append([]step{{began, unready}, after(comes, create{Pod: later})}, test.steps...)}
				slices.SortFunc(h.Steps, func(a, b step) int { return cmp.Compare(a.At, b.At) })
				for i, node := range []string{"sick", "well-1", "well-2"} {
					h.Nodes = append(h.Nodes, nodeSpec{Name: node, Zone: "a", Phase: time.Duration(i)*sec + 90*ms})
				}
				h.Steps = append(h.Steps, after(max(1000*sec, h.end()-began), touch{"well-1"}))
				w := play(t, h, evicts, func(t *testing.T, w *world) {
					bubble.Run(t, "upstream's node-lifecycle controller", func(ctx context.Context) error { return upstreamOfNodes(ctx, w) })
				})
				tainted := began
				for i, l := range w.nodes["sick"] {
					if i > 0 && l.noExecute != "" && w.nodes["sick"][i-1].noExecute == "" && (tainted == began || test.again) {
						tainted = l.at
					}
				}
				want := test.want.ours
				if who == "upstream" {
					want = test.want.upstream
				}
				if !equal(w.pods["p"], at(tainted+want), 1200*ms) {
					t.Errorf("pod p was deleted at %s, want %s after the taint at %s: %s", when(w.pods["p"]), want, clock(tainted), when(w.nodes["sick"]))
				}
				if !equal(w.pods["q"], at(began+comes+tolerated), 1200*ms) {
					t.Errorf("pod q was deleted at %s, want %s after its binding", when(w.pods["q"]), tolerated)
				}
			})
		}
	}
}

// The rule itself promises this. TestEvictions shows that ours keeps the rule.
func TestARestartNeverBringsAnEvictionForward(t *testing.T) {
	restarts := 0
	for index := range uint64(20000) {
		h := evictions.generate(seed.Seed(), index)
		steady := *h
		steady.Steps = slices.DeleteFunc(slices.Clone(h.Steps), func(s step) bool { return occasion{step: &s}.kills() })
		if len(steady.Steps) == len(h.Steps) {
			continue
		}
		restarts++
		without := predictDeletes(&steady, none)
		for uid, deletes := range predictDeletes(h, none) {
			if len(without[uid]) == 0 || deletes[0].at < without[uid][0].at {
				t.Fatalf("history %d: pod %s leaves at %s with the restarts, at %s without", index, uid, when(deletes), when(without[uid]))
			}
		}
	}
	if restarts == 0 {
		t.Error("no history had a restart")
	}
}

// Upstream's outcome is a matter of luck when a pod is replaced before its goroutines have seen that the old one is
// gone. Ours is the same as ever.
func TestOursDoesNotNeedToSeeAPodGoBeforeItsReplacementComes(t *testing.T) {
	replaced := 0
	for index := range uint64(600) {
		h := evictions.generate(seed.Seed(), index)
		if !slices.ContainsFunc(h.podSpecs(), func(p podSpec) bool { return p.UID != p.Name }) {
			continue
		}
		replaced++
		h.Hasty = true
		got, want := play(t, h, ours).pods, predictDeletes(h, none)
		for _, spec := range h.podSpecs() {
			if !equal(got[spec.UID], want[spec.UID], exactly) {
				t.Errorf("history %d of seed %d: pod %s deleted at %s, want %s", index, seed.Seed(), spec.UID, when(got[spec.UID]), when(want[spec.UID]))
			}
		}
	}
	if replaced == 0 {
		t.Error("no pod was replaced")
	}
}
