// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
)

// late is a contestant that deletes every pod a second late.
func late(right contestant) contestant {
	return func(ctx context.Context, w *world) error {
		w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			takeTime(w.client, func() { pass(sec) })
			return false, nil, nil
		})
		return right(ctx, w)
	}
}

// forgetful is a contestant that loses one in five of its patches of nodes, although it is told that they were carried
// out.
func forgetful(right contestant) contestant {
	var calls atomic.Int32
	return func(ctx context.Context, w *world) error {
		w.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if calls.Add(1)%5 != 0 {
				return false, nil, nil
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			return true, w.cluster.nodes[action.(clienttesting.PatchAction).GetName()].DeepCopy(), nil
		})
		return right(ctx, w)
	}
}

// A game that finds nothing wrong with a wrong contestant proves nothing.
func TestAWrongContestantIsFoundAndShownInAFewSteps(t *testing.T) {
	faster := policy
	faster.Rate = 10*policy.Rate + 0.5
	for name, test := range map[string]struct {
		game           game
		ours, upstream contestant // nil: the right one
		kind           kind
	}{
		"ours deletes a second late":            {evictions, late(ours), nil, oursBreaksTheRule},
		"upstream deletes a second late":        {evictions, nil, late(upstream), upstreamIsUnexplained},
		"the plugin is wrong":                   {evictions, nil, late(upstream), timersAreWrong},
		"upstream evicts instead of ours":       {evictions, upstream, nil, oursBreaksTheRule},
		"ours taints at twice the rate":         {health, oursChanged(func(c *nodehealth.Config) { c.Policy.Rate *= 2 }), nil, oursBreaksTheRule},
		"upstream forgets taints":               {health, nil, forgetful(upstreamOfNodes), upstreamIsUnexplained},
		"upstream taints at ten times the rate": {health, nil, upstreamAtRates(faster), upstreamIsUnexplained},
		"ours taints instead of upstream":       {health, nil, oursOfNodes, upstreamIsUnexplained},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := test.game
			if test.ours != nil {
				g.ours = test.ours
			}
			if test.upstream != nil {
				g.upstream = test.upstream
			}
			smallest := g.property(t, func(*trial) {}, test.kind).MustFind(t, 60).Smallest
			const few, fewNodes = 3, 4
			if len(smallest.Steps) > few || len(smallest.podSpecs()) > few || len(smallest.nodeSpecs()) > fewNodes {
				t.Errorf("it needs no more than %d steps, %d pods and %d nodes", few, few, fewNodes)
			}
		})
	}
}
