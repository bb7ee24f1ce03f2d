// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// breakerOf returns a policy that stops everything while more than most pods are due.
func breakerOf(most intstr.IntOrString) v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{
		MaxDue: most, Settle: &metav1.Duration{Duration: 10 * sec},
	}}
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

// addNodesWith creates nodes x0, x1 and so on, each with pods x0-0, x0-1 and so on.
func (w *world) addNodesWith(nodes, pods int, change ...func(*corev1.Pod)) {
	w.T.Helper()
	for i := range nodes {
		node := fmt.Sprint("x", i)
		w.AddNode(node, "a")
		for j := range pods {
			w.AddPod(fmt.Sprintf("%s-%d", node, j), node, change...)
		}
	}
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
		w.wantCount("event n0 EvictionHeld: Pod default/n0 is due to leave, but stays: EvictionPolicy brake has tripped: 5 of 5 selected pods would leave, and the breaker allows 2", 1)
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

func TestPodsThatBecomeDueAreCountedBeforeOthersLeave(t *testing.T) {
	for becomesDue, want := range map[int64]map[string]time.Duration{
		10: nil, // when the first pod would leave
		11: {"n0": 11 * sec, "n1": 15 * sec, "m0": 22 * sec},
	} {
		play(t, func(w *world) {
			w.add("brake", breakerOf(intstr.FromInt32(2)))
			w.AddPod("n0", "n")
			w.AddPod("n1", "n", scene.Tolerating("k", 4))
			w.AddPod("m0", "m", scene.Tolerating("k", becomesDue))
			w.run()
			w.Until(sec)
			w.Taint("n", "k:NoExecute")
			w.Taint("m", "k:NoExecute")
			w.Until(time.Minute)
			w.wantLeft(want)
		})
	}
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

func TestResumedAtLetsWhatWasDueGoAndCountsWhatComesLaterWhateverClockSetIt(t *testing.T) {
	for _, ahead := range []time.Duration{0, -2 * time.Hour, 2 * time.Hour} {
		play(t, func(w *world) {
			w.add("brake", breakerOf(intstr.FromInt32(1)))
			w.addPods(2, 3)
			w.run()
			w.Until(sec)
			w.Taint("n", "k:NoExecute")
			w.Until(time.Minute)
			w.wantLeft(nil)
			w.edit("brake", func(spec *v1alpha1.EvictionPolicySpec) {
				spec.Breaker.ResumedAt = &metav1.Time{Time: time.Now().Add(ahead)}
			})
			w.Until(2 * time.Minute)
			w.wantLeft(left(time.Minute, "n0", "n1"))
			w.Taint("m", "k:NoExecute")
			w.Until(5 * time.Minute)
			w.edit("brake", func(spec *v1alpha1.EvictionPolicySpec) { spec.Pace = nil }) // another change resumes nothing
			w.Until(5 * time.Hour)
			w.wantLeft(left(time.Minute, "n0", "n1"))
		})
	}
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

func TestABreakerDoesNotBelieveAnOldTimeAdded(t *testing.T) {
	play(t, func(w *world) {
		brake := breakerOf(intstr.FromString("20%"))
		w.add("brake", brake)
		w.addNodesWith(10, 2)
		w.run()
		w.Until(time.Hour)
		w.edit("brake", func(spec *v1alpha1.EvictionPolicySpec) { spec.Breaker.ResumedAt = &metav1.Time{Time: time.Now()} })
		old := metav1.NewTime(time.Now().Add(-30 * time.Minute))
		for i := range 10 {
			w.SetTaints(fmt.Sprint("x", i), corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &old})
			w.Pass(sec)
		}
		w.Pass(10 * time.Minute)
		w.wantLeft(nil)
	})
}

func TestAnOpenBreakerClosesWhenMorePodsAreSelectedAndItsPodsLeave(t *testing.T) {
	play(t, func(w *world) {
		w.add("brake", breakerOf(intstr.FromString("50%")))
		w.addPods(3, 1)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		w.wantLeft(nil)
		for i := range 16 {
			w.AddPod(fmt.Sprint("new", i), "m")
		}
		w.Pass(2*countEvery + 15*sec)
		for _, pod := range []string{"n0", "n1", "n2"} {
			if got := w.deletes(pod); len(got) != 1 {
				t.Errorf("pod %s was deleted at %v, want once: 3 of 20 selected pods are due, and the breaker allows 10", pod, got)
			}
		}
		w.wantCondition("brake", v1alpha1.ConditionTripped, "FewDue", "")
	})
}

func TestAnOldNumberOfSelectedPodsMakesABreakerOnlyStricter(t *testing.T) {
	for name, lose := range map[string]func(w *world, pod string){
		"pods are deleted":            func(w *world, pod string) { w.DeletePod("default", pod) },
		"pods have other labels":      func(w *world, pod string) { w.ChangePod(pod, labeled("tier", "web")) },
		"their node has other labels": func(w *world, _ string) { w.ChangeNode("m", func(node *corev1.Node) { node.Labels["pool"] = "b" }) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				brake := breakerOf(intstr.FromString("25%")) // 10 of 40 pods, 1 of 4
				brake.PodSelector = matching("tier", "db")
				brake.NodeSelector = &v1alpha1.Selector{MatchExpressions: []v1alpha1.SelectorRequirement{
					{Key: "pool", Operator: metav1.LabelSelectorOpDoesNotExist},
				}}
				w.add("brake", brake)
				for i := range 40 {
					w.AddPod(fmt.Sprintf("db%02d", i), []string{"n", "m"}[min(i/4, 1)], labeled("tier", "db"))
				}
				w.run()
				w.Until(20 * sec)
				for i := 4; i < 40; i++ {
					lose(w, fmt.Sprintf("db%02d", i))
				}
				w.Pass(2 * sec)
				w.Taint("n", "k:NoExecute")
				w.Pass(5 * time.Minute)
				for i := range 4 {
					if got := w.deletes(fmt.Sprintf("db%02d", i)); len(got) > 0 {
						t.Errorf("pod db%02d was deleted at %v: 4 of 4 selected pods are due, and the breaker allows 1", i, got)
					}
				}
			})
		})
	}
}

// A policy may be read before the pods that were there first, and pods may come between two counts.
func TestPodsThatCameSinceTheLastCountKeepABreakerClosed(t *testing.T) {
	for name, since := range map[string]time.Duration{"at once": 0, "half a minute later": 30 * sec} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.add("brake", breakerOf(intstr.FromString("25%")))
				w.addPods(2, 0)
				w.run()
				w.Until(10 * sec)
				w.edit("brake", func(spec *v1alpha1.EvictionPolicySpec) { spec.Breaker.MaxDue = intstr.FromString("30%") })
				w.Pass(since)
				for i := range 6 {
					w.AddPod(fmt.Sprint("new", i), "m")
				}
				w.Taint("n", "k:NoExecute")
				tainted := time.Since(w.Start)
				w.Pass(sec)
				w.wantCondition("brake", v1alpha1.ConditionTripped, "FewDue", "")
				w.Pass(time.Minute)
				w.wantLeft(left(tainted+10*sec, "n0", "n1"))
			})
		})
	}
}

func TestABreakerCountsOnlyPodsThatWouldLeaveIfItWereClosed(t *testing.T) {
	finished := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	for name, keeps := range map[string]func(w *asking, brake *v1alpha1.EvictionPolicySpec){
		"finished pods that the policy keeps": func(w *asking, brake *v1alpha1.EvictionPolicySpec) {
			brake.Finished = v1alpha1.FinishedKeep
			for i := range 5 {
				w.AddPod(fmt.Sprint("kept", i), "n", finished)
			}
		},
		"pods that another policy holds": func(w *asking, _ *v1alpha1.EvictionPolicySpec) {
			db := hold(0)
			db.PodSelector = matching("tier", "db")
			w.add("db", db)
			for i := range 5 {
				w.AddPod(fmt.Sprint("kept", i), "n", labeled("tier", "db"))
			}
		},
		"pods of a budget that allows no disruption": func(w *asking, _ *v1alpha1.EvictionPolicySpec) {
			w.add("ask", evicts(0))
			w.addBudget("db", "db", 0)
			for i := range 5 {
				w.AddPod(fmt.Sprint("kept", i), "n", labeled("app", "db"), ready4ever)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			playAsking(t, func(w *asking) {
				brake := breakerOf(intstr.FromInt32(2))
				keeps(w, &brake)
				w.add("brake", brake)
				w.addPods(0, 2)
				w.run()
				w.Until(10 * sec)
				w.Taint("n", "k:NoExecute")
				w.Until(time.Minute)
				w.wantCondition("brake", v1alpha1.ConditionTripped, "FewDue", "")
				w.Taint("m", "k:NoExecute")
				w.Pass(time.Minute)
				w.wantThere(5)
			})
		})
	}
}

func TestABreakerDoesNotCountWhatItsOwnPolicyHolds(t *testing.T) {
	play(t, func(w *world) {
		spec := hold(10 * sec)
		spec.Breaker = &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(2), Settle: &metav1.Duration{Duration: sec}}
		w.add("p", spec)
		for i, seconds := range []int64{1, 4, 7} {
			w.AddPod(fmt.Sprint("n", i), "n", scene.Tolerating("k", seconds))
		}
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		w.wantLeft(map[string]time.Duration{"n0": 13 * sec, "n1": 16 * sec, "n2": 19 * sec})
	})
}

func TestPodsThatAnotherPolicyReleasesTogetherTripABreakerBeforeTheFirstLeaves(t *testing.T) {
	for name, release := range map[string]func(w *world){
		"the policy is deleted":    func(w *world) { w.remove("other") },
		"it is a dry run from now": func(w *world) { w.edit("other", func(spec *v1alpha1.EvictionPolicySpec) { spec.DryRun = true }) },
		"its deadline passes":      func(w *world) { w.Pass(6 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				brake := breakerOf(intstr.FromInt32(2))
				brake.Breaker.Settle = &metav1.Duration{}
				w.add("brake", brake)
				w.add("other", hold(5*time.Minute))
				w.addPods(3, 3)
				w.run()
				w.Until(sec)
				w.Taint("n", "k:NoExecute")
				w.Taint("m", "k:NoExecute")
				w.Until(time.Minute)
				w.wantCondition("brake", v1alpha1.ConditionTripped, "FewDue", "")
				release(w)
				w.Pass(time.Minute)
				w.wantLeft(nil)
				w.wantCondition("brake", v1alpha1.ConditionTripped, "TooManyDue", "6 of 6 selected pods would leave, and the breaker allows 2.")
			})
		})
	}
}

// If each of two breakers took the other for something that keeps the pods, both would close, and open again.
func TestTwoBreakersDoNotCloseEachOther(t *testing.T) {
	play(t, func(w *world) {
		w.add("one", breakerOf(intstr.FromInt32(2)))
		w.add("two", breakerOf(intstr.FromInt32(3)))
		w.addPods(5, 0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		for _, name := range []string{"one", "two"} {
			w.wantCondition(name, v1alpha1.ConditionTripped, "TooManyDue", "")
		}
		w.wantLeft(nil)
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
		w.Until(time.Minute) // the backoff of a watch is random, and settle begins when the pods are known
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

// Node health taints one node of a zone in 10 s by default.
func TestTheDefaultSettleSeesNodesThatNodeHealthTaintsOneByOne(t *testing.T) {
	play(t, func(w *world) {
		brake := breakerOf(intstr.FromString("20%"))
		brake.Breaker.Settle = nil
		w.add("brake", brake)
		w.addNodesWith(20, 5)
		w.run()
		w.Until(sec)
		for i := range 20 {
			w.Taint(fmt.Sprint("x", i), "node.kubernetes.io/unreachable:NoExecute")
			w.Pass(10 * sec)
		}
		w.Pass(time.Hour)
		w.wantLeft(nil)
	})
}

// Ten nodes with two pods each are tainted within ten seconds. What keeps the pods ends as they were tainted, node by
// node, long after they were due.
func TestAWaveOfPodsThatNothingKeepsAnyMoreTripsTheBreaker(t *testing.T) {
	brake := func(spec v1alpha1.EvictionPolicySpec) v1alpha1.EvictionPolicySpec {
		spec.Breaker = &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(4), Settle: &metav1.Duration{Duration: 10 * sec}}
		return spec
	}
	for name, test := range map[string]struct {
		spec  v1alpha1.EvictionPolicySpec
		ready corev1.ConditionStatus
		other *v1alpha1.EvictionPolicySpec
	}{
		"because a Hold ends":                  {brake(hold(time.Minute)), corev1.ConditionTrue, nil},
		"because the Hold of another one ends": {brake(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete}), corev1.ConditionTrue, new(hold(time.Minute))},
		"because their budget is overruled":    {brake(evicts(time.Minute)), corev1.ConditionTrue, nil},
		"because they are unready for so long": {brake(evicts(time.Hour)), corev1.ConditionFalse, nil},
	} {
		t.Run(name, func(t *testing.T) {
			playAsking(t, func(w *asking) {
				w.addNodesWith(10, 2, labeled("app", "web"), isReady(test.ready, 0))
				w.add("brake", test.spec)
				if test.other != nil {
					w.add("other", *test.other)
				}
				w.addBudget("web", "web", 0)
				w.run()
				for i := range 10 {
					w.Taint(fmt.Sprint("x", i), "k:NoExecute")
					w.Pass(sec)
				}
				w.Pass(20 * time.Minute)
				w.wantLeft(nil)
			})
		})
	}
}
