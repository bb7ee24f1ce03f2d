// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// wantReconcileErrors wants controller-runtime to count the given number of errors of a controller during a test.
func wantReconcileErrors(t *testing.T, controller string, want int, test func()) {
	t.Helper()
	before := bubble.ReconcileErrors(t, controller)
	test()
	if got := bubble.ReconcileErrors(t, controller) - before; got != float64(want) {
		t.Errorf("controller-runtime counts %v errors of %s, want %d", got, controller, want)
	}
}

func TestFailedDeletesAreTriedAgainAfterTwiceTheTimeAndCounted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		const fails = 7
		var tried atomic.Int32
		w.On("delete", "pods", "", func() error {
			if tried.Add(1) <= fails {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run()
		w.Pass(time.Minute)
		w.wantMetric("taintkeeper_retries_total", "InternalError", fails)
		if tries := w.Did("delete p"); len(tries) != fails+1 || tries[fails]-tries[fails-1] > 6400*ms || tries[fails]-tries[fails-1] < 5120*ms {
			t.Errorf("tries at %v, want %d, the last after 5.1 to 6.4 s", tries, fails+1)
		}
	})
}

func TestWaitingForTheWatchIsNotAFailure(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.API.Watches("nodes").Lag(10 * sec)
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p")
		w.run()
		w.Pass(sec)
		w.Taint("n", "k-")
		w.addPod("q")
		w.Pass(5 * sec)
		if retries, ok := w.metric("taintkeeper_retries_total", "Unconfirmed"); !ok || retries == 0 {
			t.Error("no eviction waited for the watch")
		}
		w.wantNoMetric("taintkeeper_refused_evictions")
	})
}

func TestEachFailedTryToStampANodeIsAReconcileError(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.stampingRefused()
		w.addNode("n")
		w.addPod("counts", tolerating("k", 100_000))
		before := bubble.ReconcileErrors(t, "eviction-stamp")
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(10 * time.Minute)
		tries := len(w.Did("patch n"))
		if got := bubble.ReconcileErrors(t, "eviction-stamp") - before; tries == 0 || got != float64(tries) {
			t.Errorf("controller-runtime counts %v errors, want those of all %d tries", got, tries)
		}
	})
}

func TestEachFailedTryToRewriteAMarkIsAReconcileError(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		const fails = 3
		var tried atomic.Int32
		w.On("patch", "pods", "status", func() error {
			if tried.Add(1) <= fails {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.addNode("n")
		w.addPod("p")
		wantReconcileErrors(t, "eviction-reclaim", fails, func() {
			w.run(besideBuiltIn)
			w.ChangePod("p", markedByBuiltIn)
			w.Pass(time.Minute)
		})
		w.wantMark("p", corev1.ConditionFalse, v1alpha1.UnmarkMessage)
	})
}
