// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestEveryFaultHappensInAStormAndNoneInCalmWeather also finds a fault that no row of the tables can draw.
func TestEveryFaultHappensInAStormAndNoneInCalmWeather(t *testing.T) {
	w := newWeather(rand.New(rand.NewPCG(1, 1)))
	if got := w.planFor(&call{kind: deletePod}); got != (plan{}) {
		t.Errorf("in calm weather %+v happens", got)
	}
	if _, ok := w.next(); ok {
		t.Error("in calm weather watches are disturbed")
	}
	w.set(storm)
	drawn := map[faultKind]int{}
	for range 2000 {
		next, _ := w.next()
		drawn[next.fault]++
		drawn[w.planFor(&call{kind: deletePod}).fault]++
		if refused := w.planFor(&call{kind: watchNodes}).fault; refused == conflict || refused == droppedAnswer {
			t.Fatalf("%q happens to a watch", refused)
		}
	}
	for _, table := range [][]fault{callFaults, watchFaults} {
		for _, f := range table {
			if drawn[f.name] == 0 {
				t.Errorf("%q never happens", f.name)
			}
		}
	}
}

func TestALaneDoesEverythingAsOftenAsItsWeightSaysAndFinishesWhatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{config: config{out: io.Discard, seed: 1}}
		ctx, cancel := context.WithTimeout(t.Context(), 38*time.Second)
		defer cancel()
		done, aborted := map[faultKind]int{}, 0
		does := func(name faultKind) func(*actor, context.Context) error {
			return func(_ *actor, ctx context.Context) error {
				done[name]++
				pause(ctx, 5*time.Second)
				if ctx.Err() != nil {
					aborted++
				}
				return errNotRunning // which ends nothing
			}
		}
		l := lane{table: []disturbance{{3, "often", does("often")}, {1, "once", does("once")}}, first: time.Second, toTheEnd: true}
		if err := s.actor(1, "a").run(ctx, l); err != nil || done["often"] != 6 || done["once"] != 2 || aborted > 0 {
			// The eighth is under way when the run ends.
			t.Errorf("%v: %v, %d aborted; want two rounds of four", err, done, aborted)
		}
		fails := errors.New("the API server does not start")
		l.table = []disturbance{{1, "fails", func(*actor, context.Context) error { cancel(); return fails }}}
		running, cancel := context.WithCancel(t.Context())
		l.table[0].do = func(*actor, context.Context) error { cancel(); return fails }
		if err := s.actor(1, "a").run(running, l); !errors.Is(err, fails) {
			t.Errorf("%v, want the error of what is finished after the end", err)
		}
	})
}

// TestTheWebhookDoesWhatItIsTold: it is slow, hangs until that is over, and refuses a pod so often and no more.
func TestTheWebhookDoesWhatItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &webhook{ledger: newLedger(), random: rand.New(rand.NewPCG(1, 1)), over: make(chan struct{}), refused: map[types.UID]int{}}
		pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
		expect := func(ctx context.Context, admits bool, shortest, longest time.Duration) {
			t.Helper()
			began := time.Now()
			if admitted, took := w.review(ctx, pod) == nil, time.Since(began); admitted != admits || took < shortest || took > longest {
				t.Errorf("admitted %t after %s, want %t after %s to %s", admitted, took, admits, shortest, longest)
			}
		}
		expect(t.Context(), true, 0, 0)
		w.set(slowReview)
		expect(t.Context(), true, shortestReview, longestReview)
		w.set(hungReview)
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		expect(impatient, true, time.Second, time.Second) // its caller does not wait for the answer any longer
		time.AfterFunc(time.Minute, func() { w.set("") })
		expect(t.Context(), true, time.Minute, time.Minute)
		w.set(refusedReview)
		for range mostRefusals {
			expect(t.Context(), false, 0, 0)
		}
		expect(t.Context(), true, 0, 0)
		if got := w.ledger.read().injected; got[slowReview] != 1 || got[hungReview] != 2 || got[refusedReview] != mostRefusals {
			t.Errorf("injected %v", got)
		}
	})
}
