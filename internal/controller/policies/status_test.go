// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestStatuses(t *testing.T) {
	const accepted, holding, tripped = v1alpha1.ConditionAccepted, v1alpha1.ConditionHolding, v1alpha1.ConditionTripped
	playStories(t, map[string]func(w *world){
		"a status says what is held": func(w *world) {
			w.add("db", only("tier", "db", hold(0)))
			w.AddPod("a", "n", labeled("tier", "db"))
			w.AddPod("b", "n", labeled("tier", "db"), scene.Tolerating("k", 100))
			w.AddPod("c", "m", labeled("tier", "db"))
			w.AddPod("web", "n")
			w.run()
			w.Until(sec)
			w.wantCondition("db", accepted, "Accepted", "")
			w.wantCondition("db", holding, "NothingHeld", "")
			w.Until(20 * sec) // until labels are known the policy selects all pods, and numbers follow
			w.wantNumbers("db", 3, 0, 0)
			w.Taint("n", "k:NoExecute")
			w.Pass(1500 * time.Millisecond) // a condition changes at once
			w.wantNumbers("db", 3, 1, 1)
			w.wantCondition("db", holding, "Held", "It holds 1 of 1 due pod (Held 1): default/a.")
			if since := w.status("db").Since; since == nil || since.Sub(w.Start).Truncate(sec) != 20*sec {
				w.T.Errorf("held since %v", since)
			}
			w.Until(140 * sec) // numbers follow
			w.wantNumbers("db", 3, 2, 2)
			w.Taint("n", "k-")
			w.Pass(16 * sec)
			w.wantNumbers("db", 3, 0, 0)
			w.wantCondition("db", holding, "NothingHeld", "")
		},
		"a dry run says what it would hold, and holds nothing": func(w *world) {
			is := hold(0)
			is.DryRun = true
			w.add("try", is)
			w.AddPod("p", "n", func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/slow"} })
			w.On("delete", "pods", "", func() error { return errRefused })
			w.begins(sec)
			w.Pass(20 * sec)
			w.wantNumbers("try", 1, 1, 1)
			w.wantCondition("try", accepted, "Accepted", "The policy only reports: dryRun is true.")
			w.wantCondition("try", holding, "DryRun", "It would hold 1 of 1 due pod (Held 1): default/p.")
			if len(w.Did("delete p")) == 0 {
				w.T.Error("it holds the pod")
			}
		},
		"a breaker that has tripped stays open after a restart until it has settled": func(w *world) {
			w.add("brake", breakerOf(intstr.FromInt32(1)))
			w.addPods(2, 0)
			w.begins(sec)
			w.Until(20 * sec)
			w.wantCondition("brake", tripped, "TooManyDue", "2 of 2 selected pods would leave, and the breaker allows 1.")
			w.Stop()
			w.DeletePod("default", "n1")
			w.Until(30 * sec)
			w.run()
			w.Until(time.Minute)
			w.wantLeft(map[string]time.Duration{"n0": 40 * sec, "n1": 20 * sec})
			w.wantCondition("brake", tripped, "FewDue", "")
		},
		"numbers are written every 15 seconds at most": func(w *world) {
			w.add("stay", hold(0))
			w.begins(0)
			w.AddPod("first", "n")
			w.Pass(2 * sec)
			before := w.writes.Load()
			for range 60 {
				w.AddPod(w.Now().String(), "n")
				w.Pass(sec)
			}
			if writes := w.writes.Load() - before; writes < 3 || writes > 4 {
				w.T.Errorf("%d writes in a minute", writes)
			}
			before = w.writes.Load()
			w.Pass(10 * time.Minute)
			if writes := w.writes.Load() - before; writes > 2 { // the last pods are due, and a minute later selected
				w.T.Errorf("%d writes although nothing changes", writes)
			}
		},
		"pods that only settle are not held": func(w *world) {
			w.add("brake", breakerOf(intstr.FromInt32(1)))
			w.addPods(1, 0)
			w.begins(20 * sec)
			w.Pass(5 * sec)
			w.wantNumbers("brake", 1, 1, 0)
			w.wantCondition("brake", holding, "Settling", "1 due pod waits")
		},
	})
}

func TestHeldPodsStayWhileTaintkeeperIsDownOnlyIfNothingEvictsThem(t *testing.T) {
	const binding = "taintkeeper-held"
	var (
		evicts = policy.Policy{IfDown: v1alpha1.IfDownEvict}
		holds  = policy.Policy{IfDown: v1alpha1.IfDownHold}
		tries  = policy.Policy{IfDown: v1alpha1.IfDownHold, DryRun: true}
	)
	for name, test := range map[string]struct {
		down   down
		policy policy.Policy
		held   bool
		reason string
	}{
		"the built-in is off":                    {down{}, evicts, true, "BuiltInOff"},
		"the built-in may evict them":            {down{binding: binding, exists: true}, evicts, false, "BuiltInWouldEvict"},
		"the admission policy holds them":        {down{binding: binding, exists: true}, holds, true, "AdmissionPolicy"},
		"the admission policy does not exist":    {down{binding: binding}, holds, false, "NoAdmissionPolicy"},
		"the admission policy exempts a dry run": {down{binding: binding, exists: true}, tries, false, "DryRun"},
	} {
		cases := test.down.cases(followed{Policy: &test.policy})
		got := cases[slices.IndexFunc(cases, func(c conditionCase) bool { return c.when })]
		if got.holds != test.held || got.reason != test.reason {
			t.Errorf("%s: it says %t, %s: %s; want %t, %s", name, got.holds, got.reason, got.message, test.held, test.reason)
		}
	}
}
