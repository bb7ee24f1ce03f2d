// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// With -short, sweeps disturb one in so many calls.
const oneIn = 2

// playRule lets three of four nodes be deadlocked for a while, under a rule that taints two at most, and then deletes the
// rule. It returns which nodes had the taint at the end of each part.
func playRule(t *testing.T, begins func(w *world)) (parts [][]string) {
	t.Helper()
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 4)
		w.addRule("deadlock", atMost(intstr.FromInt32(2)), comesAfter(5*time.Second), goesAfter(10*time.Second))
		begins(w)
		pass := func(d time.Duration) {
			for range d / time.Second {
				w.Pass(time.Second)
				if got := w.deadlocked(); len(got) > 2 {
					t.Errorf("after %s the nodes %q have the taint, want 2 at most", w.Now(), got)
				}
			}
		}
		for _, part := range []func(){
			func() {
				w.locks(nodes[0])
				pass(2 * time.Second)
				w.locks(nodes[1])
				pass(2 * time.Second)
				w.locks(nodes[2])
			},
			func() { w.unlocks(nodes[0]) },
			func() { w.locks(nodes[0]); w.unlocks(nodes[1]) },
			func() {
				rule := w.rule("deadlock")
				w.Must(nil, w.rules.Delete(t.Context(), rule))
			},
		} {
			part()
			pass(30 * time.Second)
			parts = append(parts, w.deadlocked())
		}
		if !w.isGone("deadlock") {
			t.Error("the deleted rule is still there")
		}
	})
	return parts
}

func TestWhenTheProcessIsKilledAtAnyCallAboutNodesTheSameNodesAreTainted(t *testing.T) {
	undisturbed := playRule(t, func(w *world) { w.run() })
	bubble.KillAtEveryCall(t, oneIn, func(t *testing.T, k *bubble.Killed) {
		got := playRule(t, func(w *world) {
			k.Lives(w.World, func(bubble.Request) bool { return true }, func(client *bubble.Slow) func(context.Context) error {
				controller, caches := w.controller(func(c *Config) { c.Client = client })
				return caches.With(controller.Run)
			})
		})
		if !slices.EqualFunc(got, undisturbed, slices.Equal[[]string]) {
			t.Errorf("%s: the nodes %q were tainted, undisturbed %q", k, got, undisturbed)
		}
	})
}

func TestWhateverHappensToTheWatchesAtAnyEventTheSameNodesAreTainted(t *testing.T) {
	undisturbed := playRule(t, func(w *world) { w.run() })
	bubble.DisturbEveryEvent(t, oneIn, func(t *testing.T, d *bubble.Disturbed) {
		got := playRule(t, func(w *world) {
			w.run()
			d.In(w.World)
		})
		if !slices.EqualFunc(got, undisturbed, slices.Equal[[]string]) {
			t.Errorf("%s: the nodes %q were tainted, undisturbed %q", d, got, undisturbed)
		}
	})
}
