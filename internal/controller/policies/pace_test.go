// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func paceOf(pods int32, per time.Duration, scope v1alpha1.PaceScope) v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete,
		Pace:   &v1alpha1.EvictionPace{Pods: pods, Per: metav1.Duration{Duration: per}, Scope: scope},
	}
}

// deletes returns when the pods whose names begin with a prefix were deleted, in order.
func (w *world) deletes(prefix string) (at []time.Duration) {
	for _, c := range w.Book.Calls() {
		if strings.HasPrefix(c.What, "delete "+prefix) {
			at = append(at, c.At)
		}
	}
	slices.Sort(at)
	return at
}

// wantPace fails unless the given number of pods left, and never more than most of them in a window.
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

func TestThePodThatIsDueFirstLeavesFirst(t *testing.T) {
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

func TestAPaceThatIsNewLetsPodsGoAtOnceAndOneThatIsRaisedLetsTheDifferenceGo(t *testing.T) {
	play(t, func(w *world) {
		w.addPods(30, 0)
		w.run()
		w.Until(time.Minute)
		w.add("slow", paceOf(5, 30*sec, v1alpha1.ScopeCluster))
		w.Pass(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(sec)
		w.wantPace("", 5, 5, 30*sec)
		w.edit("slow", func(spec *v1alpha1.EvictionPolicySpec) { spec.Pace.Pods = 6 })
		w.Pass(sec)
		w.wantPace("", 6, 6, 30*sec)
		w.Pass(27 * sec)
		w.wantPace("", 6, 6, 30*sec)
		w.Pass(10 * sec)
		w.wantPace("", 12, 6, 30*sec)
	})
}

func TestAPaceThatChangesCountsWhatLeftBefore(t *testing.T) {
	per := func(per time.Duration) func(*v1alpha1.EvictionPolicySpec) {
		return func(spec *v1alpha1.EvictionPolicySpec) { spec.Pace.Per = metav1.Duration{Duration: per} }
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.EvictionPolicySpec) // 10 s after the first pod left, at 1 per minute
		next   time.Duration                      // when the next pod leaves, after the first
	}{
		"a shorter window":        {per(30 * sec), 30 * sec},
		"one that is over":        {per(5 * sec), 10 * sec},
		"a longer window":         {per(2 * time.Minute), 2 * time.Minute},
		"another scope":           {func(spec *v1alpha1.EvictionPolicySpec) { spec.Pace.Scope = v1alpha1.ScopeNode }, 70 * sec},
		"the same, written again": {func(*v1alpha1.EvictionPolicySpec) {}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.addPods(2, 0)
				w.add("slow", paceOf(1, time.Minute, v1alpha1.ScopeCluster))
				w.run()
				w.Until(2 * time.Minute)
				w.Taint("n", "k:NoExecute")
				w.Pass(10 * sec)
				w.edit("slow", test.change)
				w.Pass(test.next + time.Minute)
				w.wantLeft(map[string]time.Duration{"n0": 2 * time.Minute, "n1": 2*time.Minute + test.next})
			})
		})
	}
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
			w.AddPod(fmt.Sprintf("db%d", i), "n", labeled("tier", "db"))
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

func TestATaintThatNoPaceIsAboutLetsPodsGoAtOnce(t *testing.T) {
	play(t, func(w *world) {
		w.add("slow", paceOf(1, 10*time.Minute, v1alpha1.ScopeCluster))
		w.addPods(3, 0)
		w.run()
		w.Until(20 * time.Minute)
		w.Taint("n", "k:NoExecute", corev1.TaintNodeOutOfService+":NoExecute")
		w.Pass(sec)
		w.wantLeft(left(20*time.Minute, "n0", "n1", "n2"))
	})
}

func TestAPodThatWaitsForAPaceLeavesWhenItIsDueBecauseOfAnotherTaint(t *testing.T) {
	play(t, func(w *world) {
		spec := paceOf(1, 10*time.Minute, v1alpha1.ScopeCluster)
		spec.Taints = []v1alpha1.EvictionPolicyTaint{{Key: "k"}}
		w.add("slow", spec)
		for _, pod := range []string{"n0", "n1"} {
			w.AddPod(pod, "n", scene.Tolerating("broken", 30))
		}
		w.run()
		w.Until(20 * time.Minute)
		w.Taint("n", "k:NoExecute", "broken:NoExecute")
		w.Pass(time.Minute)
		w.wantLeft(map[string]time.Duration{"n0": 20 * time.Minute, "n1": 20*time.Minute + 30*sec})
	})
}

func TestAPodThatWaitsForOnePaceTakesNoPlaceOfAnother(t *testing.T) {
	play(t, func(w *world) {
		w.add("all", paceOf(1, 10*sec, v1alpha1.ScopeCluster))
		spec := paceOf(1, time.Hour, v1alpha1.ScopeCluster)
		spec.PodSelector = matching("tier", "db")
		w.add("db", spec)
		for i := range 3 {
			w.AddPod(fmt.Sprintf("db%d", i), "n", labeled("tier", "db"))
		}
		w.addPods(0, 10)
		w.run()
		w.Until(2 * time.Hour)
		w.Taint("n", "k:NoExecute")
		w.Pass(sec)
		w.Taint("m", "k:NoExecute")
		w.Pass(2 * time.Minute)
		w.wantPace("m", 10, 1, 10*sec)
		w.Pass(3 * time.Hour)
		w.wantPace("db", 3, 1, time.Hour)
		w.wantPace("", 13, 1, 10*sec)
	})
}

func TestPodsThatAreRefusedAgainAndAgainDoNotKeepThePlacesOfOthers(t *testing.T) {
	play(t, func(w *world) {
		w.add("slow", paceOf(1, 5*sec, v1alpha1.ScopeCluster))
		w.addPods(3, 10)
		w.run(func(c *eviction.Config) {
			c.Client = &bubble.Slow{Clientset: w.Client, Before: func(_ context.Context, r bubble.Request) error {
				if r.Verb == "delete" && strings.HasPrefix(r.Name, "n") {
					return errRefused
				}
				return nil
			}}
		})
		w.Until(time.Minute)
		w.Taint("n", "k:NoExecute")
		w.Pass(10 * time.Minute) // each is tried rarely now
		w.Taint("m", "k:NoExecute")
		w.Pass(2 * time.Minute)
		w.wantPace("m", 10, 1, 5*sec)
	})
}

// Taint y would need the budget, so the pods leave because of taint x.
func TestPodsThatOneTaintLetsGoWithoutAskingNeedNoPlaceInABudgetForAnother(t *testing.T) {
	playAsking(t, func(w *asking) {
		ask := evicts(0)
		ask.Taints = []v1alpha1.EvictionPolicyTaint{{Key: "y"}}
		w.add("ask", ask)
		w.add("slow", paceOf(1, 5*sec, v1alpha1.ScopeCluster))
		w.addBudget("web", "web", 0)
		w.addWeb(3)
		w.run()
		w.Until(time.Minute)
		w.Taint("n", "y:NoExecute")
		w.Pass(time.Minute)
		w.wantThere(3)
		w.Taint("n", "x:NoExecute")
		w.Pass(20 * sec)
		w.wantPace("web", 3, 1, 5*sec)
		w.wantAsked(0, 0)
	})
}

func TestAPodWhoseDeleteIsNotAnsweredCountsWhateverHappensThen(t *testing.T) {
	for what, happens := range map[string]func(w *world){
		"its node is untainted": func(w *world) { w.Taint("n", "k-") },
		"it is held": func(w *world) {
			spec := hold(0)
			spec.PodSelector = matching("tier", "db")
			w.add("db", spec)
		},
	} {
		play(t, func(w *world) {
			w.add("slow", paceOf(1, 5*time.Minute, v1alpha1.ScopeCluster))
			w.AddPod("n0", "n", labeled("tier", "db"))
			w.addPods(0, 2)
			w.run(func(c *eviction.Config) {
				c.Client = &bubble.Slow{Clientset: w.Client, Before: func(ctx context.Context, r bubble.Request) error {
					if r.Verb == "delete" && r.Name == "n0" { // it is cancelled, and carried out
						_ = bubble.Takes(ctx, 3*sec)
						time.AfterFunc(sec/2, func() { _ = w.API.Delete(podResource, "default", "n0") })
						return context.Canceled
					}
					return nil
				}}
			})
			w.Until(10 * time.Minute)
			w.Taint("n", "k:NoExecute")
			w.Pass(sec)
			w.Taint("m", "k:NoExecute")
			w.Pass(sec)
			happens(w)
			w.Pass(4 * time.Minute)
			if got := w.deletes("m"); len(got) > 0 {
				t.Errorf("%s: another pod left at %v, in the same window", what, got)
			}
			w.Pass(7 * time.Minute)
			w.wantPace("m", 2, 1, 5*time.Minute)
		})
	}
}

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

// toleratingFirst lets a pod tolerate k for an hour, even if Taintkeeper keeps it alive: the first toleration that matches
// counts.
func toleratingFirst(pod *corev1.Pod) {
	all := pod.Spec.Tolerations
	pod.Spec.Tolerations = nil
	scene.Tolerating("k", 3600)(pod)
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, all...)
}

func TestAPaceSeesPodsThatNeedNotLeaveAnyMore(t *testing.T) {
	for what, spare := range map[string]func(w *world, pod string){
		"tolerates":  func(w *world, pod string) { w.ChangePod(pod, toleratingFirst) },
		"is deleted": func(w *world, pod string) { w.DeletePod("default", pod) },
	} {
		play(t, func(w *world) {
			w.add("slow", paceOf(2, time.Minute, v1alpha1.ScopeCluster))
			w.addPods(20, 2)
			w.run()
			w.Until(10 * time.Minute)
			w.Taint("n", "k:NoExecute")
			w.Pass(sec)
			w.Taint("m", "k:NoExecute")
			at := w.deletes("n")
			if len(at) != 2 {
				t.Fatalf("%s: deletes at %v, want two", what, at)
			}
			for i := range 20 {
				pod := fmt.Sprintf("n%d", i)
				if _, err := w.API.Get(podResource, "default", pod); err == nil {
					spare(w, pod)
				}
			}
			w.Pass(70 * sec)
			w.wantPace("m", 2, 2, time.Minute)
		})
	}
}
