// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// With -short, sweeps disturb one in so many calls.
const oneIn = 2

// executed is when a node had a NoExecute taint for its readiness, to the second.
type executed struct{ first, last time.Duration }

// playOutages lets one node fall silent and come back, another not be ready for a while, and a third fall silent for good.
// It returns when which node had a NoExecute taint.
func playOutages(t *testing.T, begins func(w *world)) map[string]executed {
	t.Helper()
	seen := map[string]executed{}
	play(t, func(t *testing.T, w *world) {
		nodes := append(w.addZone("a", 4), w.addZone("b", 4)...)
		for _, name := range nodes {
			w.addPod("p-"+name, name)
		}
		begins(w)
		for at := 5 * time.Second; at < 6*time.Minute; at += time.Second {
			switch at {
			case 10 * time.Second:
				w.falls("a-0", "b-1")
				w.Report("b-0", corev1.NodeReady, corev1.ConditionFalse)
			case 45 * time.Second:
				w.Report("b-0", corev1.NodeReady, corev1.ConditionTrue)
			case 4 * time.Minute:
				w.resumes("a-0")
			}
			w.Until(at)
			for _, name := range w.tainted(nodes...) {
				when, tainted := seen[name]
				if !tainted {
					when.first = at
				}
				when.last = at
				seen[name] = when
			}
		}
		for _, name := range []string{"a-0", "b-1"} {
			if status := w.podReady("p-" + name).Status; status != corev1.ConditionFalse {
				t.Errorf("the pod of node %s, which was silent, is Ready %s", name, status)
			}
		}
	})
	return seen
}

// A restart gives a node that is silent its grace period again, and a taint is never lost by one. Kills at renewals of
// our own lease, of which there is one each second, are left out: they tell nothing to the process or to anybody else.
func TestWhenTheProcessIsKilledAtAnyCallAboutNodesAndPodsTheSameNodesAreTainted(t *testing.T) {
	const again = readiness.DefaultMonitorGrace + 25*time.Second
	undisturbed := playOutages(t, func(w *world) { w.run() })
	if len(undisturbed) != 3 {
		t.Fatalf("undisturbed these have a NoExecute taint: %v", undisturbed)
	}
	bubble.KillAtEveryCall(t, oneIn, func(t *testing.T, k *bubble.Killed) {
		got := playOutages(t, func(w *world) {
			k.Lives(w.World, func(r bubble.Request) bool { return r.Resource != "leases" }, func(client *bubble.Slow) func(context.Context) error {
				health, caches := w.health(func(c *Config) { c.Client, c.EventClient = client, w.Client })
				return caches.With(health.Run)
			})
		})
		for name, want := range undisturbed {
			when, tainted := got[name]
			if !tainted || when.first < want.first || when.first > want.first+again || when.last < want.last || when.last > want.last+15*time.Second {
				t.Errorf("%s: node %s was tainted from %s to %s, undisturbed from %s to %s", k, name, when.first, when.last, want.first, want.last)
			}
		}
		if len(got) != len(undisturbed) {
			t.Errorf("%s: these were tainted: %v", k, got)
		}
	})
}

func TestWhateverHappensToTheWatchesAtAnyEventTheSameNodesAreTainted(t *testing.T) {
	undisturbed := playOutages(t, func(w *world) { w.run() })
	bubble.DisturbEveryEvent(t, oneIn, func(t *testing.T, d *bubble.Disturbed) {
		got := playOutages(t, func(w *world) {
			w.run()
			d.In(w.World)
		})
		for name, want := range undisturbed {
			when, tainted := got[name]
			late := d.Late + 2*time.Second
			if !tainted || when.first < want.first || when.first > want.first+late || when.last < want.last || when.last > want.last+late {
				t.Errorf("%s: node %s was tainted from %s to %s, undisturbed from %s to %s", d, name, when.first, when.last, want.first, want.last)
			}
		}
		if len(got) != len(undisturbed) {
			t.Errorf("%s: these were tainted: %v", d, got)
		}
	})
}
