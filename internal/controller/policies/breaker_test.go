// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// breakerOf returns a policy that stops everything while more than most pods are due.
func breakerOf(most intstr.IntOrString) v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: most}}
}

// addPods creates the given number of pods on each of two nodes.
func (w *world) addPods(on ...int) {
	w.T.Helper()
	for i, node := range []string{"n", "m"} {
		for j := range on[i] {
			w.AddPod(fmt.Sprintf("%s%d", node, j), node)
		}
	}
}

func left(at time.Duration, pods ...string) map[string]time.Duration {
	want := map[string]time.Duration{}
	for _, pod := range pods {
		want[pod] = at
	}
	return want
}

func TestWhatIsAtMostMaxDueLeavesAfterSettle(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromInt32(2)))
		w.addPods(2, 0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		w.wantLeft(left(11*sec, "n0", "n1"))
	})
}

func TestAWaveThatComesNodeByNodeTripsBeforeItsFirstPodLeaves(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromString("50%"))) // 2 of 5 pods
		w.addPods(2, 3)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(9 * sec)
		w.Taint("m", "k:NoExecute")
		w.Until(10 * time.Minute)
		w.wantLeft(nil)
		w.wantCount("event n0 EvictionHeld: Pod default/n0 is due to leave, but stays: EvictionPolicy brake has tripped: 5 of 5 selected pods are due, and the breaker allows 2", 1)
		w.Taint("m", "k-")
		w.Pass(time.Minute)
		w.wantLeft(left(10*time.Minute+10*sec, "n0", "n1")) // it closes when that has been so for 10 s
	})
}

func TestAShareIsOfThePodsThatExistWhenTheyAreDue(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromString("80%")))
		w.addPods(1, 0)
		w.run()
		w.Until(30 * sec)
		w.addPods(0, 4) // the last count, of one pod, would still be used for half a minute
		w.Taint("m", "k:NoExecute")
		w.Until(35 * sec)
		w.wantCount("event m0 EvictionHeld: Pod default/m0 is due to leave, but stays: EvictionPolicy brake waits to see how many other pods are due", 1)
		w.Until(time.Minute)
		w.wantLeft(left(40*sec, "m0", "m1", "m2", "m3"))
	})
}

func TestANewProcessCountsBeforeItsFirstDelete(t *testing.T) {
	play(t, func(w *world) {
		spec := breakerOf(intstr.FromInt32(2))
		spec.Breaker.Settle = &metav1.Duration{}
		w.add("brake", spec)
		w.addPods(2, 3)
		w.Taint("n", "k:NoExecute")
		w.Taint("m", "k:NoExecute")
		w.Until(sec)
		w.run()
		w.Until(time.Minute)
		w.wantLeft(nil)
		w.Stop()
		w.run()
		w.Pass(time.Minute)
		w.wantLeft(nil)
	})
}

func TestResumedAtLetsWhatWasDueGoAndCountsWhatComesLater(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromInt32(1)))
		w.addPods(2, 3)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		w.wantLeft(nil)
		w.edit("brake", func(spec *v1alpha1.EvictionPolicySpec) { spec.Breaker.ResumedAt = &metav1.Time{Time: time.Now()} })
		w.Until(2 * time.Minute)
		w.wantLeft(left(time.Minute, "n0", "n1"))
		w.Taint("m", "k:NoExecute")
		w.Until(5 * time.Minute)
		w.wantLeft(left(time.Minute, "n0", "n1"))
	})
}

func TestAPodThatGoesByItselfClosesTheBreaker(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromInt32(1)))
		w.addPods(2, 0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		w.DeletePod("default", "n1")
		w.Pass(time.Minute)
		want := left(70*sec, "n0")
		want["n1"] = time.Minute
		w.wantLeft(want)
	})
}

func TestAShareIsOfThePodsThatArePickedOutByLabelsThatBecomeKnownLater(t *testing.T) {
	play(t, func(w *world) {
		for i := range 3 {
			w.AddPod(fmt.Sprintf("db%d", i), "n", labeled("tier", "db"))
		}
		w.addPods(0, 30)
		w.run()
		w.Until(sec)
		spec := breakerOf(intstr.FromString("20%")) // at least 1 of 3 pods; of 33 it would be 6
		spec.PodSelector = matching("tier", "db")
		w.API.Watches("pods").Break() // so that the labels come later
		w.add("brake", spec)
		w.Pass(4 * sec)
		w.API.Watches("pods").Repair()
		w.Taint("n", "k:NoExecute")
		w.Until(10 * time.Minute)
		w.wantLeft(nil)
	})
}

func TestANewProcessDoesNotTripBeforeItKnowsAllPods(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromString("50%")))
		w.addPods(4, 6)
		w.Taint("n", "k:NoExecute")
		w.Until(sec)
		w.API.Watches("pods").Break()
		w.run()
		w.Pass(3 * sec)
		w.API.Watches("pods").Repair()
		w.Until(20 * sec)
		for _, pod := range []string{"n0", "n1", "n2", "n3"} {
			if got := w.deletes(pod); len(got) != 1 {
				t.Errorf("pod %s was deleted at %v, want once", pod, got)
			}
		}
	})
}

func TestABreakerThatHasTrippedStaysOpenWhenItsStatusIsWiped(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromInt32(1)))
		w.addPods(3, 0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		for range 3 {
			w.Pass(time.Minute)
			var object v1alpha1.EvictionPolicy
			w.Must(nil, w.policies.Get(t.Context(), client.ObjectKey{Name: "brake"}, &object))
			if object.Status.Due != 3 {
				t.Errorf("%d pods are due according to the status, want 3", object.Status.Due)
			}
			object.Status = v1alpha1.EvictionPolicyStatus{}
			w.Must(nil, w.policies.Status().Update(t.Context(), &object))
			w.Stop()
			w.run()
		}
		w.wantLeft(nil)
	})
}
