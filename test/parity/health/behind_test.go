// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// behind is a contestant whose watch of leases brings nothing between two instants, and then everything.
func behind(right contestant, from, until time.Duration) contestant {
	return func(ctx context.Context, w *world) error {
		var held []func()
		w.locked(func() {
			tell := w.cluster.leaseChanged
			w.cluster.leaseChanged = func(before, after *coordinationv1.Lease) {
				if now := arena.Now(); now < from || now >= until {
					tell(before, after)
					return
				}
				held = append(held, func() { tell(before, after) })
			}
		})
		go func() {
			arena.Sleep(until - arena.Now())
			w.locked(func() {
				for _, tell := range held {
					tell()
				}
			})
		}()
		return right(ctx, w)
	}
}

// Since 1.37, upstream reads a Lease before it calls its node Unknown. If the Lease has been renewed, its cache is
// behind, and it skips all nodes in all passes until the cache has caught up.
// A pass that skips all nodes counts no zone, so handleDisruption drops the states of all zones. If all were fully
// disrupted, it does not notice later that they no longer are, so it grants no new grace periods
// (handleDisruption: allWasFullyDisrupted). No event says that it skips nodes; ours says that it is blind.
func TestWhileItsLeasesAreBehindUpstreamForgetsTheDisruptionAndSaysNothing(t *testing.T) {
	const from, until = 30 * sec, 110 * sec
	h := &history{
		Nodes: []nodeSpec{{Name: "a", Zone: "a", Phase: 7090 * ms}, {Name: "b", Zone: "a", Phase: 8091 * ms}},
		Start: sec,
		Steps: []step{
			{20098 * ms, ready{"a", corev1.ConditionFalse}}, {21098 * ms, ready{"b", corev1.ConditionFalse}}, // all zones
			{29098 * ms, fall{[]string{"b"}}},
			{105098 * ms, ready{"a", corev1.ConditionTrue}},
		},
	}
	const recovered = 105 * sec
	for name, test := range map[string]struct {
		contestant contestant
		graced     bool // b has a new grace period from the recovery on
		told       bool
	}{"ours": {ours, true, true}, "upstream": {upstream, false, false}} {
		var told bool
		looks := playAndLook(t, h, behind(test.contestant, from, until), func(w *world) {
			told = slices.ContainsFunc(w.events, func(e *corev1.Event) bool { return e.InvolvedObject.Kind != "Node" })
		}).looks["b"]
		i := slices.IndexFunc(looks, func(l look) bool { return l.ready == corev1.ConditionUnknown })
		if i < 0 {
			t.Errorf("%s never calls b Unknown: %v", name, looks)
			continue
		}
		if graced := looks[i].at >= recovered+grace.Monitor; graced != test.graced {
			t.Errorf("%s calls b Unknown at %s, a new grace period: %t, want %t", name, looks[i].at, graced, test.graced)
		}
		if told != test.told {
			t.Errorf("%s says that it cannot tell which nodes are silent: %t, want %t", name, told, test.told)
		}
	}
}
