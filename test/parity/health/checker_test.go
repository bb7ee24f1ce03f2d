// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// ourselves is ours, set up differently from upstream.
func ourselves(change func(*nodehealth.Config)) contestant {
	return func(ctx context.Context, w *world) error { return oursWith(ctx, w, change) }
}

// forgetful is a contestant that loses every fifth change of a node, although it is told that the change was made.
func forgetful(right contestant) contestant {
	return func(ctx context.Context, w *world) error {
		var changes atomic.Int32
		w.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if changes.Add(1)%5 > 0 {
				return false, nil, nil
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			node, ok := w.cluster.nodes[action.(clienttesting.PatchAction).GetName()]
			return ok, node.DeepCopy(), nil
		})
		return right(ctx, w)
	}
}

func TestAWrongContestantIsFoundAndShownInAFewSteps(t *testing.T) {
	for name, test := range map[string]struct {
		contest contest
		kind    arena.Kind
	}{
		"ours, whose grace period is a second longer": {
			contest{ourselves(func(c *nodehealth.Config) { c.Grace.Monitor += sec }), upstream}, oursBreaksTheRule,
		},
		"ours, at twice the rate": {
			contest{ourselves(func(c *nodehealth.Config) { c.Policy.Rate *= 2 }), upstream}, oursBreaksTheRule,
		},
		"ours, which only says what it would do": {
			contest{ourselves(func(c *nodehealth.Config) { c.DryRun = true }), upstream}, oursBreaksTheRule,
		},
		"ours, forgetting":     {contest{forgetful(ours), upstream}, oursBreaksTheRule},
		"upstream, forgetting": {contest{ours, forgetful(upstream)}, upstreamIsUnexplained},
		"upstream, at ten times the rate": {
			contest{ours, func(ctx context.Context, w *world) error { return runUpstream(ctx, w, 10*policy.Rate+0.5) }}, upstreamIsUnexplained,
		},
		"upstream instead of ours": {contest{upstream, upstream}, oursBreaksTheRule},
		"ours instead of upstream": {contest{ours, ours}, upstreamIsUnexplained},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const enough, seed = 40, 1 // this checks the checker, not what a seed generates
			found, smallest, ok := test.contest.series().Search(t, seed, enough, test.kind)
			if !ok {
				t.Fatalf("not found in %d histories", enough)
			}
			const fewSteps, fewNodes = 3, 4
			if len(smallest.Steps) > fewSteps || len(smallest.specs()) > fewNodes {
				t.Errorf("%d steps and %d nodes are left of %d steps, want %d and %d at most\n%s", len(smallest.Steps), len(smallest.specs()),
					len(found.Steps), fewSteps, fewNodes, test.contest.try(t, smallest).Timetable())
			}
		})
	}
}
