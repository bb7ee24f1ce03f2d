// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// pauseOf returns a pause of pods with these labels; nil means all.
func pauseOf(selector *v1alpha1.Selector) v1alpha1.EvictionPolicySpec {
	spec := hold(0)
	spec.Paused, spec.PodSelector = new("the network is down"), selector
	return spec
}

// playRespect runs a test in a world where a policy asks about 3 pods on node n for 15 minutes, and their budget allows
// one eviction. After a second, the node is tainted.
func playRespect(t *testing.T, test func(w *asking)) {
	t.Helper()
	playAsking(t, func(w *asking) {
		w.add("respect", evicts(15*time.Minute))
		w.addWeb(3)
		w.addBudget("web", "web", 1)
		test(w)
	})
}

// wantAskedUntil checks that one of the 3 pods left within its budget, and the others at an instant without asking.
func (w *asking) wantAskedUntil(at time.Duration) {
	w.T.Helper()
	w.Until(at - sec)
	w.wantThere(2)
	w.wantCount("delete web", 0)
	w.Until(at + 5*sec/2) // the record is up to 2 s late, and the calls are made one after the other
	w.wantThere(0)
	w.wantCount("delete web", 2)
}

// wantHalted checks how many pods of policy respect are halted, and when the last halt ended; 0 is never.
func (w *world) wantHalted(pods int32, until time.Duration) {
	w.T.Helper()
	is := w.status("respect")
	got := time.Duration(0)
	if is.HaltedUntil != nil {
		got = is.HaltedUntil.Sub(w.Start)
	}
	if is.Halted != pods || got < until || got > until+2*sec || until == 0 && got != 0 {
		w.T.Errorf("after %s %d pods are halted, and the last halt ended at %s; want %d and %s", w.Now(), is.Halted, got, pods, until)
	}
}

func TestADeadlineCountsFromTheEndOfAPause(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.add("pause", pauseOf(nil))
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * time.Minute)
		w.wantAsked(0, 0)
		w.wantHalted(3, 0)
		w.remove("pause")
		w.Pass(2 * sec)
		w.wantHalted(0, 20*time.Minute)
		w.wantAskedUntil(35 * time.Minute)
		w.Pass(time.Minute)
		w.wantHalted(0, 0) // nothing that is due was halted
	})
}

func TestADeadlineCountsFromTheEndOfItsOwnPause(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.edit("respect", func(spec *v1alpha1.EvictionPolicySpec) { spec.Paused = new("the network is down") })
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * time.Minute)
		w.edit("respect", func(spec *v1alpha1.EvictionPolicySpec) { spec.Paused = nil })
		w.wantAskedUntil(35 * time.Minute)
	})
}

func TestADeadlineCountsFromTheEndOfTheLastPause(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.allow(0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		for _, at := range []time.Duration{5 * time.Minute, 12 * time.Minute, 20 * time.Minute} {
			w.Until(at)
			w.add("pause", pauseOf(nil))
			w.Pass(time.Minute)
			w.remove("pause")
		}
		w.allow(1)
		w.wantAskedUntil(36 * time.Minute)
	})
}

func TestADeadlineCountsFromTheEndOfAnOpenBreaker(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.edit("respect", func(spec *v1alpha1.EvictionPolicySpec) { spec.PodSelector = matching("app", "web") })
		w.add("brake", breakerOf(intstr.FromInt32(2)))
		w.addPods(2, 0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * time.Minute)
		w.wantHalted(3, 0)
		for _, pod := range []string{"n0", "n1"} { // of the others, only one would leave if the breaker were closed
			w.DeletePod("default", pod)
		}
		w.Pass(12 * sec)
		w.wantHalted(0, 20*time.Minute+10*sec)
		w.wantAskedUntil(35*time.Minute + 20*sec) // when it has settled
	})
}

func TestADeadlineCountsFromResumedAt(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.allow(3)
		w.add("brake", breakerOf(intstr.FromInt32(1)))
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * time.Minute)
		w.wantAsked(0, 0)
		w.allow(1)
		w.edit("brake", func(spec *v1alpha1.EvictionPolicySpec) {
			spec.Breaker.ResumedAt = &metav1.Time{Time: time.Now()}
		})
		w.wantAskedUntil(35 * time.Minute)
	})
}

// While the breaker is open, the Eviction API is not asked, and the deadline that opened it stays over.
func TestABreakerThatADeadlineTripsStaysOpen(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.allow(0)
		w.add("brake", breakerOf(intstr.FromInt32(1)))
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Hour)
		w.wantThere(3)
		w.wantCondition("brake", v1alpha1.ConditionTripped, "TooManyDue", "3 of 3 selected pods would leave, and the breaker allows 1.")
	})
}

func TestTheDeadlineOfAHoldCountsFromTheEndOfAPause(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(time.Minute))
		w.add("pause", pauseOf(nil))
		w.addPods(1, 0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(10 * time.Minute)
		w.remove("pause")
		w.Until(20 * time.Minute)
		w.wantLeft(left(11*time.Minute, "n0"))
	})
}

// A pause of some pods moves the deadline of no other pod, nor that of a pod that is due later.
func TestAHaltMovesOnlyTheDeadlinesOfThePodsItKept(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(time.Minute))
		w.add("pause", pauseOf(matching("team", "a")))
		w.AddPod("a", "n", labeled("team", "a"))
		w.AddPod("b", "n", labeled("team", "b"))
		w.AddPod("later", "n", labeled("team", "a"), scene.Tolerating("k", 700))
		w.run()
		w.Until(30 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(10 * time.Minute)
		w.remove("pause")
		w.Until(20 * time.Minute)
		w.wantLeft(map[string]time.Duration{"a": 11 * time.Minute, "b": 90 * sec, "later": 790 * sec})
	})
}

func TestAPauseOfOneTaintMovesNoDeadlineOfAnother(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(time.Minute))
		pause := pauseOf(nil)
		pause.Taints = []v1alpha1.EvictionPolicyTaint{{Key: "x"}}
		w.add("pause", pause)
		w.addPods(1, 1)
		w.run()
		w.Until(sec)
		w.Taint("n", "x:NoExecute")
		w.Taint("m", "x:NoExecute", "y:NoExecute")
		w.Until(10 * time.Minute)
		w.remove("pause")
		w.Until(20 * time.Minute)
		w.wantLeft(map[string]time.Duration{"n0": 11 * time.Minute, "m0": 61 * sec})
	})
}

// However the halt ends: here the pod is no longer selected.
func TestADeadlineCountsFromWhenAPodIsNoLongerPaused(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(time.Minute))
		w.add("pause", pauseOf(matching("team", "a")))
		w.AddPod("p", "n", labeled("team", "a"))
		w.run()
		w.Until(30 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(10 * time.Minute)
		w.ChangePod("p", labeled("team", "b"))
		w.Until(20 * time.Minute)
		w.wantLeft(left(11*time.Minute, "p"))
	})
}

func TestANewLeaderKnowsWhenAPauseEnded(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.add("pause", pauseOf(nil))
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * time.Minute)
		w.remove("pause")
		w.Pass(3 * sec)
		for range 3 {
			w.Stop()
			w.Pass(10 * sec)
			w.run()
			w.Pass(10 * sec)
		}
		w.wantAskedUntil(35 * time.Minute)
	})
}

// Nobody has seen when it ended, so the deadline counts from the start of the new process.
func TestAPauseThatEndsWhileThereIsNoLeaderEndsWhenTheNextOneStarts(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.add("pause", pauseOf(nil))
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * time.Minute)
		w.Stop()
		w.remove("pause")
		w.Until(30 * time.Minute)
		w.run()
		w.wantAskedUntil(45 * time.Minute)
	})
}

// The status is written at once when a halt begins, not only every 15 seconds.
func TestAPauseOfAFewSecondsIsKnownToTheNextLeader(t *testing.T) {
	playRespect(t, func(w *asking) {
		w.allow(0)
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(14 * time.Minute)
		w.add("pause", pauseOf(nil))
		w.Pass(4 * sec)
		w.Stop()
		w.remove("pause")
		w.Until(20 * time.Minute)
		w.allow(1)
		w.run()
		w.wantAskedUntil(35 * time.Minute)
	})
}

// A standby sees halts itself: the status knows only that some pods were halted, not which.
func TestAStandbyKnowsWhichPodsAPauseKept(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(30*time.Minute))
		w.AddPod("a", "n", labeled("team", "a"))
		w.AddPod("b", "n", labeled("team", "b"))
		w.run()
		end := w.Stop
		leads := w.standBy()
		w.Until(30 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(10 * time.Minute)
		w.add("pause", pauseOf(matching("team", "a")))
		w.Until(20 * time.Minute)
		w.remove("pause")
		w.Until(25 * time.Minute)
		end()
		leads()
		w.Until(2 * time.Hour)
		w.wantLeft(map[string]time.Duration{"a": 50 * time.Minute, "b": 30*time.Minute + 30*sec})
	})
}

// standBy starts a second process that does not lead until the function that it returns is called.
func (w *world) standBy() (leads func()) {
	w.T.Helper()
	var process func(context.Context) error
	lead := make(chan struct{})
	evictor := w.evictor
	process = w.replica(func(ctx context.Context, f *Follower, evictor func(context.Context) error) error {
		var parts stage.Parts
		parts.InEveryReplica(append(f.inEveryReplica(), func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case <-lead:
				return evictor(ctx)
			}
		})...)
		return parts.Run(ctx)
	})
	w.evictor = evictor
	w.Run("the standby", process)
	return func() { close(lead) }
}

func TestAPodThatAPauseKeptIsNotDeletedWhenItsPolicyIsNew(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("pause", pauseOf(nil))
		w.addWeb(3)
		w.addBudget("web", "web", 1)
		w.run()
		w.Until(sec)
		w.Taint("n", corev1.TaintNodeUnreachable+":NoExecute")
		w.Until(20 * time.Minute)
		w.add("respect", evicts(15*time.Minute))
		w.Pass(sec)
		w.remove("pause")
		w.wantAskedUntil(35 * time.Minute)
	})
}
