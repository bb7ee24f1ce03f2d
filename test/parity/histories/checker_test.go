// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
)

// disturbed lets a function see every call of a verb that a contestant makes, before it is answered. It may let virtual
// time pass, in takeTime, and may swallow the call.
func disturbed(c contestant, verb, resource string, swallows func(w *world, name string) bool) contestant {
	return func(ctx context.Context, w *world) error {
		w.client.PrependReactor(verb, resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			name := action.(interface{ GetName() string }).GetName()
			if !swallows(w, name) {
				return false, nil, nil
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			return true, w.cluster.nodes[name].DeepCopy(), nil
		})
		return c(ctx, w)
	}
}

// late is a contestant that deletes every pod a second late.
func late(right contestant) contestant {
	return disturbed(right, "delete", "pods", func(w *world, _ string) bool {
		takeTime(w.client, func() { pass(sec) })
		return false
	})
}

// forgetful is a contestant that loses some of its calls, although it is told that they were carried out.
func forgetful(right contestant, verb, resource string, oneIn int32) contestant {
	var calls atomic.Int32
	return disturbed(right, verb, resource, func(*world, string) bool { return calls.Add(1)%oneIn == 0 })
}

// greedy is a contestant that deletes another pod together with the first.
func greedy(right contestant) contestant {
	return func(ctx context.Context, w *world) error {
		var once sync.Once
		deleteAnother := func(name string) {
			pods := w.client.CoreV1().Pods(namespace)
			list, err := pods.List(ctx, metav1.ListOptions{})
			for i := 0; err == nil && i < len(list.Items); i++ {
				if other := list.Items[i].Name; other != name && pods.Delete(ctx, other, metav1.DeleteOptions{}) == nil {
					return
				}
			}
		}
		return disturbed(right, "delete", "pods", func(_ *world, name string) bool {
			once.Do(func() { go deleteAnother(name) })
			return false
		})(ctx, w)
	}
}

func TestAWrongContestantIsFoundAndShownInAFewSteps(t *testing.T) {
	faster := policy
	faster.Rate = 10*policy.Rate + 0.5
	for name, test := range map[string]struct {
		game           game
		ours, upstream contestant // nil: the right one
		kind           kind
	}{
		"ours deletes a second late":            {evictions, late(ours), nil, oursBreaksTheRule},
		"ours forgets deletes":                  {evictions, forgetful(ours, "delete", "pods", 3), nil, oursBreaksTheRule},
		"ours deletes one too many":             {evictions, greedy(ours), nil, oursBreaksTheRule},
		"upstream deletes a second late":        {evictions, nil, late(upstream), upstreamIsUnexplained},
		"upstream forgets deletes":              {evictions, nil, forgetful(upstream, "delete", "pods", 3), upstreamIsUnexplained},
		"the plugin is wrong":                   {evictions, nil, late(upstream), timersAreWrong},
		"upstream evicts instead of ours":       {evictions, upstream, nil, oursBreaksTheRule},
		"ours evicts instead of upstream":       {evictions, nil, ours, upstreamIsUnexplained},
		"our grace period is too long":          {health, oursChanged(func(c *nodehealth.Config) { c.Grace.Monitor += sec }), nil, oursBreaksTheRule},
		"ours taints at twice the rate":         {health, oursChanged(func(c *nodehealth.Config) { c.Policy.Rate *= 2 }), nil, oursBreaksTheRule},
		"ours only says what it would do":       {health, oursChanged(func(c *nodehealth.Config) { c.DryRun = true }), nil, oursBreaksTheRule},
		"ours forgets taints":                   {health, forgetful(oursOfNodes, "patch", "nodes", 5), nil, oursBreaksTheRule},
		"upstream forgets taints":               {health, nil, forgetful(upstreamOfNodes, "patch", "nodes", 5), upstreamIsUnexplained},
		"upstream taints at ten times the rate": {health, nil, upstreamAtRates(faster), upstreamIsUnexplained},
		"upstream taints instead of ours":       {health, upstreamOfNodes, nil, oursBreaksTheRule},
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
			const enough, seed = 60, 1 // this checks the checker, not what a seed generates
			found, smallest := g.search(t, seed, enough, test.kind)
			const few, fewNodes = 3, 4
			if len(smallest.Steps) > few || len(smallest.podSpecs()) > few || len(smallest.nodeSpecs()) > fewNodes {
				t.Errorf("%d of %d steps, %d pods and %d nodes are left, want %d, %d and %d at most\n%s", len(smallest.Steps), len(found.Steps),
					len(smallest.podSpecs()), len(smallest.nodeSpecs()), few, few, fewNodes, g.try(t, smallest).timetable())
			}
		})
	}
}
