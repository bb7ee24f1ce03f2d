// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

func paceOf(pods int32, per time.Duration, scope v1alpha1.PaceScope) v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete,
		Pace:   &v1alpha1.EvictionPace{Pods: pods, Per: metav1.Duration{Duration: per}, Scope: scope},
	}
}

// deletes returns when pods were deleted, in order; those whose names begin in some way.
func (w *world) deletes(prefix string) (at []time.Duration) {
	for _, c := range w.Book.Calls() {
		if strings.HasPrefix(c.What, "delete "+prefix) {
			at = append(at, c.At)
		}
	}
	slices.Sort(at)
	return at
}

// wantPace fails unless so many pods left, and never more than some in a window.
func (w *world) wantPace(prefix string, pods, most int, per time.Duration) {
	w.T.Helper()
	at := w.deletes(prefix)
	if len(at) != pods {
		w.T.Errorf("after %s %d pods %s* have left, want %d: %v", w.Now(), len(at), prefix, pods, at)
	}
	for i := most; i < len(at); i++ {
		if at[i]-at[i-most] < per {
			w.T.Errorf("%d pods %s* left between %s and %s: %v", most+1, prefix, at[i-most], at[i], at)
			return
		}
	}
}

func TestAPaceHoldsInEveryWindowAndIsUsedUp(t *testing.T) {
	for scope, want := range map[v1alpha1.PaceScope]int{v1alpha1.ScopeCluster: 1, v1alpha1.ScopeNode: 2, v1alpha1.ScopeZone: 1} {
		play(t, func(w *world) {
			w.add("slow", paceOf(5, 30*sec, scope))
			w.addPods(10, 10)
			w.run()
			w.Until(time.Minute) // it has seen a whole window
			w.Taint("n", "k:NoExecute")
			w.Taint("m", "k:NoExecute")
			w.Pass(25 * sec)
			w.wantPace("", want*5, want*5, 30*sec)
			w.Pass(6 * sec)
			w.wantPace("", want*10, want*5, 30*sec)
			w.Pass(time.Minute + 10*sec)
			w.wantPace("", 20, want*5, 30*sec)
			if scope == v1alpha1.ScopeNode {
				w.wantPace("n", 10, 5, 30*sec)
				w.wantPace("m", 10, 5, 30*sec)
			}
		})
	}
}

func TestWhoWasDueFirstLeavesFirst(t *testing.T) {
	play(t, func(w *world) {
		w.add("slow", paceOf(1, 10*sec, v1alpha1.ScopeCluster))
		w.addPods(2, 2)
		w.run()
		w.Until(time.Minute)
		w.Taint("m", "k:NoExecute")
		w.Pass(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Minute)
		var order []string
		for _, c := range w.Book.Calls() {
			if name, ok := strings.CutPrefix(c.What, "delete "); ok {
				order = append(order, name)
			}
		}
		if want := []string{"m0", "m1", "n0", "n1"}; !slices.Equal(order, want) {
			t.Errorf("they left in the order %v, want %v", order, want)
		}
	})
}

func TestAProcessThatHasJustStartedWaitsForAWholeWindow(t *testing.T) {
	play(t, func(w *world) {
		w.add("slow", paceOf(5, 30*sec, v1alpha1.ScopeCluster))
		w.addPods(20, 0)
		w.run()
		w.Until(time.Minute)
		w.Taint("n", "k:NoExecute")
		for range 3 { // killed every 40 s
			w.Pass(40 * sec)
			w.Stop()
			w.run()
		}
		w.Pass(3 * time.Minute)
		w.wantPace("n", 20, 5, 30*sec)
	})
}

func TestPodsThatOthersDeleteCount(t *testing.T) {
	play(t, func(w *world) {
		w.add("slow", paceOf(2, 30*sec, v1alpha1.ScopeCluster))
		w.addPods(3, 1)
		w.run()
		w.Until(time.Minute)
		w.Taint("n", "k:NoExecute")
		w.Pass(sec)
		w.wantPace("n", 2, 2, 30*sec)
		w.Pass(20 * sec)
		w.DeletePod("default", "m0") // of a node without taints: it does not count
		w.DeletePod("default", "n2")
		w.AddPod("n3", "n")
		w.Pass(10 * sec) // two have left the window, one has come
		w.wantPace("n3", 1, 1, 30*sec)
	})
}

func TestAPodThatAnotherPolicyHoldsTakesNoPlace(t *testing.T) {
	play(t, func(w *world) {
		w.add("slow", paceOf(1, 10*sec, v1alpha1.ScopeCluster))
		spec := hold(0)
		spec.PodSelector = matching("tier", "db")
		w.add("db", spec)
		for i := range 3 {
			w.AddPod(fmt.Sprintf("db%d", i), "n", labelled("tier", "db"))
		}
		w.addPods(3, 0)
		w.run()
		w.Until(time.Minute)
		w.Taint("n", "k:NoExecute")
		w.Pass(25 * sec)
		w.wantPace("n", 3, 1, 10*sec)
		w.wantPace("db", 0, 1, 10*sec)
		w.remove("db")
		w.Pass(30 * sec)
		w.wantPace("db", 3, 1, 10*sec)
	})
}

func TestARefusedPodGivesItsPlaceToTheNext(t *testing.T) {
	play(t, func(w *world) {
		w.add("slow", paceOf(1, 30*sec, v1alpha1.ScopeCluster))
		w.addPods(2, 0)
		refused := true
		w.On("delete", "pods", "", func() error {
			if refused {
				refused = false
				return errRefused
			}
			return nil
		})
		w.run()
		w.Until(time.Minute)
		w.Taint("n", "k:NoExecute")
		w.Pass(2 * time.Minute)
		if got := w.deletes("n"); len(got) != 3 || got[1]-got[0] > 2*sec || got[2]-got[1] < 30*sec {
			t.Errorf("deletes at %v, want one that is refused, one soon, and one 30 s later", got)
		}
	})
}

func TestAnUntaintedNodeGivesItsPlacesBack(t *testing.T) {
	play(t, func(w *world) {
		w.add("slow", paceOf(1, 20*sec, v1alpha1.ScopeCluster))
		w.addPods(3, 2)
		w.run()
		w.Until(time.Minute)
		w.Taint("n", "k:NoExecute")
		w.Taint("m", "k:NoExecute")
		w.Pass(sec)
		w.Taint("n", "k-")
		w.Pass(50 * sec)
		w.wantPace("m", 2, 1, 20*sec)
		w.wantPace("n", 1, 1, 20*sec)
	})
}
