// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A node that agents change all the time, under a watch that is a little late: what is read live is never what the
// watch has just brought.
func TestANodeThatChangesAllTheTimeIsStampedAndItsPodsLeave(t *testing.T) {
	for _, c := range []struct{ lag, every time.Duration }{
		{1500 * ms, sec}, {300 * ms, 250 * ms}, {500 * ms, sec},
	} {
		for _, refused := range []bool{false, true} {
			t.Run(fmt.Sprintf("every %s, %s late, stamping refused: %t", c.every, c.lag, refused), func(t *testing.T) {
				play(t, func(t *testing.T, w *world) {
					if refused {
						w.stampingRefused()
					}
					w.API.Watches("nodes").Lag(c.lag)
					w.addNode("n")
					w.addPod("p", tolerating("k", 30))
					w.run()
					w.Until(sec)
					w.Heartbeat("n")
					w.Taint("n", "k:NoExecute")
					for range int(time.Minute / c.every) {
						w.Pass(c.every)
						w.Heartbeat("n")
					}
					if at := w.Did("delete p"); len(at) != 1 || at[0] < 31*sec || at[0] > 37*sec {
						t.Errorf("deleted at %v, want once, 30 s after the taint or a little later", at)
					}
					if stamped := w.Node("n").Spec.Taints[0].TimeAdded != nil; stamped == refused {
						t.Errorf("timeAdded is written: %t", stamped)
					}
				})
			})
		}
	}
}

func TestATaintSetAgainWhileTheWatchLagsCountsFromItsSecondSetting(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.stampingRefused()
		w.API.Watches("nodes").Lag(2 * sec)
		w.addNode("n")
		w.addPod("p", tolerating("k", 30))
		w.run()
		w.Until(sec)
		w.Heartbeat("n")
		w.Taint("n", "k:NoExecute")
		w.Until(30 * sec)
		w.Heartbeat("n")
		w.Taint("n", "k-")
		w.Heartbeat("n")
		w.Taint("n", "k:NoExecute")
		w.Heartbeat("n")
		w.Pass(hour)
		if at := w.Did("delete p"); len(at) != 1 || at[0] < 60*sec {
			t.Errorf("deleted at %v, want once, 30 s after the taint was set again", at)
		}
	})
}

func TestAnUntaintThatTheWatchHasNotBroughtStopsAnEviction(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.API.Watches("nodes").Lag(5 * sec)
		w.addNode("n")
		w.addPod("p", tolerating("k", 30))
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		for range 34 {
			w.Pass(sec)
			w.Heartbeat("n")
		}
		w.Taint("n", "k-")
		w.Pass(hour)
		w.wantDeletes(nil)
	})
}

// The API server accepts no writes for two minutes. What fails is retried after up to 30 s, but the wait for a watch
// that lags does not take such long steps.
func TestABusyNodeIsStampedSoonAfterItCanBe(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("patch", "nodes", "", func() error {
			if time.Since(w.Start) < 2*time.Minute {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.API.Watches("nodes").Lag(1500 * ms)
		w.addNode("n")
		w.addPod("p", tolerating("k", 3600))
		w.run()
		w.Until(sec)
		w.Heartbeat("n")
		w.Taint("n", "k:NoExecute")
		for time.Since(w.Start) < 3*time.Minute {
			w.Pass(sec)
			w.Heartbeat("n")
		}
		if w.Node("n").Spec.Taints[0].TimeAdded == nil {
			t.Error("timeAdded is not written a minute after it can be")
		}
	})
}

func TestATaintSetAgainUnderALaggingWatchIsNotStampedWithTheFirstOnesTime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.API.Watches("nodes").Lag(3 * sec)
		w.addNode("n")
		w.addPod("p", tolerating("k", 3600))
		w.Heartbeat("n")
		w.run()
		w.Until(sec)
		w.Heartbeat("n")
		w.Taint("n", "k:NoExecute")
		for range 20 {
			w.Pass(50 * ms)
			w.Heartbeat("n")
		}
		w.Until(4*sec + 200*ms) // the watch has just brought the taint
		w.Heartbeat("n")
		w.Taint("n", "k-")
		w.Heartbeat("n")
		w.Taint("n", "k:NoExecute")
		for range 100 {
			w.Pass(50 * ms)
			w.Heartbeat("n")
		}
		w.Pass(10 * sec)
		if added := w.Node("n").Spec.Taints[0].TimeAdded; added == nil || added.Time.Before(w.Start.Add(4*sec)) {
			t.Errorf("timeAdded is %v; the taint was set at 1 s, and again at 4.2 s", added)
		}
	})
}
