// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// addStuckPods adds nodes with a pod each whose delete hangs, see hangingDeletes.
func (w *world) addStuckPods(nodes int) {
	for i := range nodes {
		w.addStampedNode(fmt.Sprint("n", i), "k:NoExecute")
		w.addPod(fmt.Sprint("stuck-", i), onNode(fmt.Sprint("n", i)))
	}
}

// failsOnce fails the first delete of pod "once" at once.
func failsOnce(others func(verb, name string) (time.Duration, error)) func(verb, name string) (time.Duration, error) {
	var failed atomic.Bool
	return func(verb, name string) (time.Duration, error) {
		if verb == "delete" && name == "once" && !failed.Swap(true) {
			return 0, apierrors.NewInternalError(errors.New("not now"))
		}
		return others(verb, name)
	}
}

// A read serves all evictions of its node, and so none of them aborts it. But nobody waits for it any more when they
// have all been aborted.
func TestReadsOfNodesThatHangAreAsManyAsEvictionsAtMost(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		server := w.slow(func(verb, _ string) (time.Duration, error) {
			if verb == "get" {
				return 30 * sec, errWebhook
			}
			return 0, nil
		})
		w.addStuckPods(1500)
		w.run(server.behind)
		w.pass(time.Minute)
		// Those that are aborted end at the same instant as others begin: as many as there are slots.
		if most := (inFlightPerSlot + 1) * DefaultConcurrentEvictions; server.mostOpen() > most {
			t.Errorf("%d calls were open at once, want %d at most", server.mostOpen(), most)
		}
	})
}

// Those that are aborted have not failed, and are tried again and again: more of them than there are slots for.
func TestADeleteThatFailedOnceIsTriedAgainSoonWhateverNumberOfOthersHang(t *testing.T) {
	playMany(t, func(_ *testing.T, w *world) {
		server := w.slow(failsOnce(hangingDeletes(30 * sec)))
		w.addStuckPods(1000)
		w.addStampedNode("m", "k:NoExecute")
		w.addPod("once", tolerating("k", 60), onNode("m"))
		w.run(server.behind)
		w.pass(10 * time.Minute)
		w.wantWithin("once", 59*sec)
	})
}

// One read that hangs, of many that would be answered.
func TestAPodDoesNotWaitForAReadThatWasStuckBeforeItWasDue(t *testing.T) {
	playMany(t, func(_ *testing.T, w *world) {
		var first atomic.Bool
		server := w.slow(func(verb, _ string) (time.Duration, error) {
			if verb == "get" && !first.Swap(true) {
				return time.Minute, nil
			}
			return 0, nil
		})
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p")
		w.addPod("q", tolerating("k", 10))
		w.run(server.behind)
		w.pass(2 * time.Minute)
		w.wantWithin("q", 9*sec)
	})
}

// Of a node of which others hang, while there is no room for more.
func TestWhatFailedAtOnceIsTriedAgainSoonThoughOthersOfItsNodeHang(t *testing.T) {
	playMany(t, func(_ *testing.T, w *world) {
		server := w.slow(failsOnce(hangingDeletes(30 * sec)))
		w.addStampedNode("n", "k:NoExecute")
		for i := range 200 {
			w.addPod(fmt.Sprint("stuck-", i))
		}
		w.addPod("once", tolerating("k", 60))
		w.run(server.behind)
		w.pass(5 * time.Minute)
		w.wantWithin("once", 59*sec)
	})
}

// At an instant at which few are stuck, as most have just been tried again, as many as were stuck in the last minute may
// be stuck again.
func TestWhatWasStuckInTheLastMinuteIsNotForgottenWhenFewAreAtAnInstant(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		server := w.slow(hangingDeletes(8 * sec))
		for i := range 300 {
			w.addStampedNode(fmt.Sprint("n", i), "k:NoExecute")
		}
		for i := range 600 {
			w.addPod(fmt.Sprint("stuck-", i), onNode(fmt.Sprint("n", i%300)))
		}
		w.run(server.behind)
		w.pass(stuckAfter + 3*sec)
		server.forget()
		w.pass(10 * time.Minute)
		if most := (inFlightWhileStuck + 1) * DefaultConcurrentEvictions; server.mostOpen() > most+2 {
			t.Errorf("%d calls were open at once after the first were stuck, want %d at most", server.mostOpen(), most)
		}
	})
}
