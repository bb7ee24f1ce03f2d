// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

func TestAnEvictionWithinTheToleranceIsOnTime(t *testing.T) {
	for name, test := range map[string]struct {
		at   time.Duration
		want v1alpha1.ShadowOutcome
	}{
		"when it is due":     {30 * sec, v1alpha1.ShadowOnTime},
		"a second before":    {29 * sec, v1alpha1.ShadowOnTime},
		"two seconds after":  {32*sec - 1, v1alpha1.ShadowOnTime},
		"three seconds late": {33*sec + 1, v1alpha1.ShadowLate},
		"five seconds early": {25 * sec, v1alpha1.ShadowEarly},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.addNode()
				w.addPod("p", 20)
				w.run()
				w.Until(10 * sec)
				w.taint("k:NoExecute")
				w.Until(test.at)
				w.evict("p")
				w.Until(2 * time.Minute)
				w.wantPods(map[v1alpha1.ShadowOutcome]int{test.want: 1})
			})
		})
	}
}

func TestWhatOthersDeleteIsNotTheBuiltIns(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		for _, name := range []string{"before-due", "after-due", "ours", "untouched"} {
			w.addPod(name, 20)
		}
		w.run()
		w.Until(10 * sec)
		w.taint("k:NoExecute")
		w.Until(20 * sec)
		w.end("before-due")
		w.Until(60 * sec)
		w.end("after-due")
		w.mark("ours", "Taintkeeper: deleting due to NoExecute taint")
		w.end("ours")
		w.taint("k-")
		w.Until(time.Hour)
		w.wantPods(nil)
		w.wantSaid()
	})
}

func TestAPodThatIsDueForLongIsReportedOnceAndCorrectedWhenItGoes(t *testing.T) {
	story := func(at time.Duration, want v1alpha1.ShadowOutcome, counted map[v1alpha1.ShadowOutcome]int, sentence string) {
		t.Run(string(want), func(t *testing.T) {
			play(t, func(w *world) {
				w.addNode()
				w.addPod("p", 0)
				w.run()
				w.Until(10 * sec)
				w.taint("k:NoExecute")
				w.Until(69 * sec)
				w.wantSaid()
				w.Until(71 * sec)
				w.wantSaid("still there 60 s after it was due: the built-in has not marked the pod")
				w.wantPods(nil)
				w.Until(at)
				w.evict("p")
				w.Until(at + time.Minute)
				w.wantSaid(sentence)
				w.wantPods(counted)
				if got := w.comparison.Report().Differences[0].Outcome; got != want {
					t.Errorf("the outcome is %s, want %s", got, want)
				}
			})
		})
	}
	story(5*time.Minute, v1alpha1.ShadowLate, map[v1alpha1.ShadowOutcome]int{v1alpha1.ShadowLate: 1}, "evicted 4m50s late")
	story(15*time.Minute, v1alpha1.ShadowNever, map[v1alpha1.ShadowOutcome]int{v1alpha1.ShadowNever: 1}, "evicted 14m50s late: it was already counted as never evicted")
}

func TestWhatWasReportedAsNotEvictedIsCountedWhenItGoesAnotherWay(t *testing.T) {
	for name, goes := range map[string]func(w *world){
		"deleted by its owner":  func(w *world) { w.remove("p") },
		"the node is untainted": func(w *world) { w.taint("k-") },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.addNode()
				w.addPod("p", 0)
				w.run()
				w.Until(10 * sec)
				w.taint("k:NoExecute")
				w.Until(3 * time.Minute)
				w.wantPods(nil)
				goes(w)
				w.Until(time.Hour)
				w.wantPods(map[v1alpha1.ShadowOutcome]int{v1alpha1.ShadowNever: 1})
			})
		})
	}
}

func TestWhatHappenedBeforeTheStartIsNotJudged(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("gone-already", 0)
		w.addPod("sooner", 60)
		w.addPod("later", 60)
		w.taint("k:NoExecute")
		w.evict("gone-already")
		w.Until(40 * sec)
		w.run()
		w.Until(60 * sec)
		w.evict("sooner") // on time, but that cannot be known, because the taint has no timeAdded
		w.Until(130 * sec)
		w.evict("later")
		w.Until(200 * sec)
		w.wantPods(map[v1alpha1.ShadowOutcome]int{v1alpha1.ShadowUnjudged: 1, v1alpha1.ShadowLate: 1})
		w.wantSaid("evicted at least 30 s late")
	})
}

func TestATaintThatComesLaterThanWhatItCausesExplainsIt(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("p", 0)
		w.run()
		w.Until(10 * sec)
		w.evict("p") // the watch of nodes is behind by a second
		w.Until(11 * sec)
		w.taint("k:NoExecute")
		w.Until(time.Minute)
		w.wantPods(map[v1alpha1.ShadowOutcome]int{v1alpha1.ShadowOnTime: 1})
	})
}

func TestAnUntaintJustBeforeTheDeleteIsNotAFault(t *testing.T) {
	for after, want := range map[time.Duration]v1alpha1.ShadowOutcome{sec: v1alpha1.ShadowOnTime, 5 * sec: v1alpha1.ShadowStayed} {
		t.Run(after.String(), func(t *testing.T) {
			play(t, func(w *world) {
				w.addNode()
				w.addPod("p", 20)
				w.run()
				w.Until(10 * sec)
				w.taint("k:NoExecute")
				w.Until(30 * sec)
				w.taint("k-")
				w.Until(30*sec + after)
				w.evict("p")
				w.Until(time.Minute)
				w.wantPods(map[v1alpha1.ShadowOutcome]int{want: 1})
			})
		})
	}
}

func TestThereIsOneEventPerNodeKindAndHour(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		for i := range 6 {
			w.addPod(fmt.Sprintf("p-%d", i), 0)
		}
		w.run()
		w.Until(10 * sec)
		w.taint("k:NoExecute")
		for i := range 4 {
			w.Until(time.Duration(20+i) * sec)
			w.evict(fmt.Sprintf("p-%d", i))
		}
		w.Until(10*time.Minute + 20*sec) // the two others are reported as not evicted after a minute
		if late, never := len(w.Book.When("event BuiltInEvictedLate")), len(w.Book.When("event BuiltInDidNotEvict")); late != 1 || never != 1 {
			t.Errorf("%d and %d events, want one of each kind", late, never)
		}
		if got := len(w.Book.Calls()); got != 2 {
			t.Errorf("%d events in all, want 2: %v", got, w.Book.Calls())
		}
		w.Until(2 * time.Hour)
		w.addPod("q", 0)
		w.Until(2*time.Hour + 30*sec)
		w.evict("q")
		w.Until(3 * time.Hour)
		if late := len(w.Book.When("event BuiltInEvictedLate")); late != 2 {
			t.Errorf("%d events, want one more after an hour", late)
		}
	})
}

func TestNothingIsChangedButEventsAndTheReport(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("p", 0)
		w.run()
		w.Until(10 * sec)
		w.taint("k:NoExecute")
		w.Client.ClearActions()
		w.Until(time.Hour)
		for _, action := range w.Client.Actions() {
			switch action.GetVerb() {
			case "list", "watch":
			default:
				if resource := action.GetResource().Resource; resource != "events" && resource != "configmaps" {
					t.Errorf("%s %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
		}
	})
}

func TestRecordsAreForgotten(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.run()
		for i := range 100 {
			w.addPod(fmt.Sprintf("p-%d", i), 20)
		}
		w.Until(10 * sec)
		w.taint("k:NoExecute")
		w.Until(30 * sec)
		for i := range 50 {
			w.evict(fmt.Sprintf("p-%d", i))
		}
		w.Until(40 * sec)
		w.taint("k-")
		w.Until(time.Hour)
		w.taint("other:NoSchedule") // no news; the last look is over
		w.Until(2 * time.Hour)
		c := w.comparison
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.byNode) > 0 || c.overdue != 0 {
			t.Errorf("records of pods of %d nodes are left, %d overdue", len(c.byNode), c.overdue)
		}
	})
}

func TestThePodsOfANodeThatIsGoneAreNotJudged(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("p", 20)
		w.run()
		w.Until(10 * sec)
		w.taint("k:NoExecute")
		w.Until(15 * sec)
		w.Must(nil, w.Client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}))
		w.Until(30 * sec)
		w.evict("p")
		w.Until(time.Hour)
		w.wantPods(map[v1alpha1.ShadowOutcome]int{v1alpha1.ShadowUnjudged: 1})
	})
}

func TestWhatWentWhileTheWatchOfPodsWasInterruptedIsNotCalledLate(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("gone", 0)
		w.addPod("terminating", 0)
		w.run()
		w.Until(10 * sec)
		w.taint("k:NoExecute")
		w.mark("gone", builtInMark)
		pods := w.comparison.config.Pods
		w.Until(3 * time.Minute) // nothing is heard meanwhile
		if got := len(w.comparison.Report().Differences); got != 2 {
			t.Errorf("%d pods are reported as not evicted, want 2", got)
		}
		w.ChangePod("terminating", func(pod *corev1.Pod) {
			at := metav1.NewTime(w.Start.Add(11*sec + 30*time.Minute))
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, new(int64(1800))
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: v1alpha1.TaintEvictionReason, Message: builtInMark,
			}}
		})
		w.Until(4 * time.Minute)
		gone, _ := pods.Get("uid-of-gone")
		w.comparison.observe(podcache.Change{Before: gone}, w.Clock.See())
		w.wantPods(map[v1alpha1.ShadowOutcome]int{v1alpha1.ShadowOnTime: 1, v1alpha1.ShadowUnjudged: 1})
		w.wantSaid()
	})
}

func TestAMarkOnAPodThatTerminatesIsASecondEvictionUnlessTheyCrossed(t *testing.T) {
	for after, want := range map[time.Duration]map[v1alpha1.ShadowOutcome]int{sec: nil, 10 * sec: {v1alpha1.ShadowTwice: 1}} {
		t.Run(after.String(), func(t *testing.T) {
			play(t, func(w *world) {
				w.addNode()
				w.addPod("p", 0)
				w.run()
				w.Until(10 * sec)
				w.end("p")
				w.Until(10*sec + after)
				w.taint("k:NoExecute")
				w.mark("p", builtInMark)
				w.Until(time.Hour)
				w.wantPods(want)
			})
		})
	}
}

func TestAMarkThatAFailedEvictionLeftDoesNotMakeALaterDeleteTheBuiltIns(t *testing.T) {
	for after, want := range map[time.Duration]map[v1alpha1.ShadowOutcome]int{time.Minute: {v1alpha1.ShadowStayed: 1}, time.Hour: nil} {
		t.Run(after.String(), func(t *testing.T) {
			play(t, func(w *world) {
				w.addNode()
				w.addPod("p", 0)
				w.run()
				w.Until(10 * sec)
				w.taint("k:NoExecute")
				w.mark("p", builtInMark)
				w.Until(20 * sec)
				w.taint("k-")
				w.Until(20*sec + after)
				w.end("p")
				w.Until(2 * time.Hour)
				w.wantPods(want)
			})
		})
	}
}
