// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// laggingNodeWatch brings every change of a node so much later, in order.
func (w *world) laggingNodeWatch(lag time.Duration) {
	type delayed struct {
		watch.Event

		at time.Time
	}
	w.client.PrependWatchReactor("nodes", func(action clienttesting.Action) (bool, watch.Interface, error) {
		prompt, err := w.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		const many = 100_000
		onItsWay, late := make(chan delayed, many), watch.NewFakeWithChanSize(many, false)
		go func() {
			for event := range prompt.ResultChan() {
				event.Object = event.Object.DeepCopyObject()
				onItsWay <- delayed{event, time.Now().Add(lag)}
			}
			close(onItsWay)
		}()
		go func() {
			for event := range onItsWay {
				select {
				case <-time.After(max(time.Until(event.at), 1)): // see bubble.Takes
					late.Action(event.Type, event.Object)
				case <-w.t.Context().Done():
					return
				}
			}
		}()
		w.t.Cleanup(prompt.Stop)
		return true, late, nil
	})
}

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
					w.laggingNodeWatch(c.lag)
					w.addNode("n")
					w.addPod("p", tolerating("k", 30))
					w.run()
					w.until(sec)
					w.heartbeat("n")
					w.taint("n", "k:NoExecute")
					for range int(time.Minute / c.every) {
						w.pass(c.every)
						w.heartbeat("n")
					}
					if at := w.did("delete p"); len(at) != 1 || at[0] < 31*sec || at[0] > 37*sec {
						t.Errorf("deleted at %v, want once, 30 s after the taint or a little later", at)
					}
					if stamped := w.node("n").Spec.Taints[0].TimeAdded != nil; stamped == refused {
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
		w.laggingNodeWatch(2 * sec)
		w.addNode("n")
		w.addPod("p", tolerating("k", 30))
		w.run()
		w.until(sec)
		w.heartbeat("n")
		w.taint("n", "k:NoExecute")
		w.until(30 * sec)
		w.heartbeat("n")
		w.taint("n", "k-")
		w.heartbeat("n")
		w.taint("n", "k:NoExecute")
		w.heartbeat("n")
		w.pass(hour)
		if at := w.did("delete p"); len(at) != 1 || at[0] < 60*sec {
			t.Errorf("deleted at %v, want once, 30 s after the taint was set again", at)
		}
	})
}

func TestAnUntaintThatTheWatchHasNotBroughtStopsAnEviction(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.laggingNodeWatch(5 * sec)
		w.addNode("n")
		w.addPod("p", tolerating("k", 30))
		w.run()
		w.until(sec)
		w.taint("n", "k:NoExecute")
		for range 34 {
			w.pass(sec)
			w.heartbeat("n")
		}
		w.taint("n", "k-")
		w.pass(hour)
		w.wantDeletes(nil)
	})
}

// The API server takes no write for two minutes. What fails is tried again after up to 30 s; a watch that lags is not
// waited for in such steps.
func TestABusyNodeIsStampedSoonAfterItCanBe(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.on("patch", "nodes", "", func() error {
			if time.Since(w.start) < 2*time.Minute {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.laggingNodeWatch(1500 * ms)
		w.addNode("n")
		w.addPod("p", tolerating("k", 3600))
		w.run()
		w.until(sec)
		w.heartbeat("n")
		w.taint("n", "k:NoExecute")
		for time.Since(w.start) < 3*time.Minute {
			w.pass(sec)
			w.heartbeat("n")
		}
		if w.node("n").Spec.Taints[0].TimeAdded == nil {
			t.Error("timeAdded is not written a minute after it can be")
		}
	})
}

func TestATaintSetAgainUnderALaggingWatchIsNotStampedWithTheFirstOnesTime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.laggingNodeWatch(3 * sec)
		w.addNode("n")
		w.addPod("p", tolerating("k", 3600))
		w.heartbeat("n")
		w.run()
		w.until(sec)
		w.heartbeat("n")
		w.taint("n", "k:NoExecute")
		for range 20 {
			w.pass(50 * ms)
			w.heartbeat("n")
		}
		w.until(4*sec + 200*ms) // the watch has just brought the taint
		w.heartbeat("n")
		w.taint("n", "k-")
		w.heartbeat("n")
		w.taint("n", "k:NoExecute")
		for range 100 {
			w.pass(50 * ms)
			w.heartbeat("n")
		}
		w.pass(10 * sec)
		if added := w.node("n").Spec.Taints[0].TimeAdded; added == nil || added.Time.Before(w.start.Add(4*sec)) {
			t.Errorf("timeAdded is %v; the taint was set at 1 s, and again at 4.2 s", added)
		}
	})
}
