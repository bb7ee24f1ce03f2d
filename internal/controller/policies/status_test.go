// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// status returns the status of a policy.
func (w *world) status(name string) v1alpha1.EvictionPolicyStatus {
	w.T.Helper()
	var object v1alpha1.EvictionPolicy
	w.Must(nil, w.policies.Get(w.T.Context(), client.ObjectKey{Name: name}, &object))
	return object.Status
}

// wantNumbers checks how many pods a policy selects, how many of them are due, and how many it holds.
func (w *world) wantNumbers(name string, selected, due, held int32) {
	w.T.Helper()
	if is := w.status(name); is.Selected != selected || is.Due != due || is.Held != held {
		w.T.Errorf("after %s policy %s selects %d, of which %d are due and %d held; want %d, %d and %d",
			w.Now(), name, is.Selected, is.Due, is.Held, selected, due, held)
	}
}

// wantCondition checks a condition of a policy.
func (w *world) wantCondition(name, kind, reason, message string) {
	w.T.Helper()
	c := meta.FindStatusCondition(w.status(name).Conditions, kind)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, message) {
		w.T.Errorf("after %s condition %s of policy %s is %v, want %s: %q", w.Now(), kind, name, c, reason, message)
	}
}

func TestTheStatusSaysWhatIsHeld(t *testing.T) {
	play(t, func(w *world) {
		db := hold(0)
		db.PodSelector = matching("tier", "db")
		w.add("db", db)
		w.AddPod("a", "n", labeled("tier", "db"))
		w.AddPod("b", "n", labeled("tier", "db"), scene.Tolerating("k", 100))
		w.AddPod("c", "m", labeled("tier", "db"))
		w.AddPod("web", "n")
		w.run()
		w.Until(sec)
		w.wantCondition("db", v1alpha1.ConditionAccepted, "Accepted", "")
		w.wantCondition("db", v1alpha1.ConditionHolding, "NothingHeld", "")
		w.Until(20 * sec) // until labels are known the policy selects all pods, and numbers follow
		w.wantNumbers("db", 3, 0, 0)
		w.Taint("n", "k:NoExecute")
		w.Pass(1500 * time.Millisecond) // a condition changes at once
		w.wantNumbers("db", 3, 1, 1)
		w.wantCondition("db", v1alpha1.ConditionHolding, "Held", "It holds 1 of 1 due pod (Held 1): default/a.")
		if since := w.status("db").Since; since == nil || since.Sub(w.Start).Truncate(sec) != 20*sec {
			t.Errorf("held since %v", since)
		}
		w.Until(140 * sec) // numbers follow
		w.wantNumbers("db", 3, 2, 2)
		w.Taint("n", "k-")
		w.Pass(16 * sec)
		w.wantNumbers("db", 3, 0, 0)
		w.wantCondition("db", v1alpha1.ConditionHolding, "NothingHeld", "")
	})
}

func TestADryRunSaysWhatItWouldHoldAndHoldsNothing(t *testing.T) {
	play(t, func(w *world) {
		spec := hold(0)
		spec.DryRun = true
		w.add("try", spec)
		w.AddPod("p", "n", func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/slow"} })
		w.On("delete", "pods", "", func() error { return errRefused })
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(20 * sec)
		w.wantNumbers("try", 1, 1, 1)
		w.wantCondition("try", v1alpha1.ConditionAccepted, "Accepted", "The policy only reports: dryRun is true.")
		w.wantCondition("try", v1alpha1.ConditionHolding, "DryRun", "It would hold 1 of 1 due pod (Held 1): default/p.")
		if len(w.Did("delete p")) == 0 {
			t.Error("it holds the pod")
		}
	})
}

func TestABreakerThatTrippedStaysOpenAfterARestartUntilItHasSettled(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromInt32(1)))
		w.addPods(2, 0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * sec)
		w.wantCondition("brake", v1alpha1.ConditionTripped, "TooManyDue", "2 of 2 selected pods would leave, and the breaker allows 1.")
		w.Stop()
		w.DeletePod("default", "n1")
		w.Until(30 * sec)
		w.run()
		w.Until(time.Minute)
		want := left(40*sec, "n0")
		want["n1"] = 20 * sec
		w.wantLeft(want)
		w.wantCondition("brake", v1alpha1.ConditionTripped, "FewDue", "")
	})
}

func TestNumbersOfAStatusAreWrittenEvery15SecondsAtMost(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		w.run()
		w.Taint("n", "k:NoExecute")
		w.AddPod("first", "n")
		w.Pass(2 * sec)
		before := w.writes.Load()
		for range 60 {
			w.AddPod(w.Now().String(), "n")
			w.Pass(sec)
		}
		if writes := w.writes.Load() - before; writes < 3 || writes > 4 {
			t.Errorf("%d writes in a minute", writes)
		}
		before = w.writes.Load()
		w.Pass(10 * time.Minute)
		if writes := w.writes.Load() - before; writes > 2 { // the last pods are due, and a minute later selected
			t.Errorf("%d writes although nothing changes", writes)
		}
	})
}

func TestPodsThatOnlySettleAreNotHeld(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromInt32(1)))
		w.addPods(1, 0)
		w.run()
		w.Until(20 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(5 * sec)
		w.wantNumbers("brake", 1, 1, 0)
		w.wantCondition("brake", v1alpha1.ConditionHolding, "Settling", "1 due pod waits")
	})
}
