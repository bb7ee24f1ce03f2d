// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

type runtimeObject = runtime.Object

const (
	ms   = time.Millisecond
	sec  = time.Second
	hour = time.Hour
)

var podsResource = corev1.Resource("pods")

func TestNoCancellingEventForAPodThatWentAnotherWay(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addNode("gone")
		w.addPod("deleted", tolerating("k", 20))
		w.addPod("terminating", tolerating("k", 20))
		w.addPod("orphan", tolerating("k", 20), func(pod *corev1.Pod) { pod.Spec.NodeName = "gone" })
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Taint("gone", "k:NoExecute")
		w.Until(5 * sec)
		w.Must(nil, w.Client.CoreV1().Pods("default").Delete(t.Context(), "deleted", metav1.DeleteOptions{}))
		w.DeleteNode("gone")
		w.ChangePod("terminating", func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) })
		w.Pass(sec)
		w.Taint("n", "k-")
		w.Pass(hour)
		if got := w.Did("event"); len(got) > 0 {
			t.Errorf("events at %v, want none", got)
		}
	})
}

func TestARestartChangesNoDeadlineByMoreThanTheResolutionOfTimeAdded(t *testing.T) {
	for _, fraction := range []time.Duration{0, 1 * ms, 300 * ms, 999 * ms} {
		play(t, func(_ *testing.T, w *world) {
			w.addNode("n")
			w.addPod("p", tolerating("k", 20))
			w.run()
			w.Until(5*sec + fraction)
			w.Taint("n", "k:NoExecute")
			w.Until(17 * sec)
			w.Stop()
			w.Pass(3 * sec)
			w.run()
			w.Pass(hour)
			// Tainted within second 5, so due not before 25 s + fraction; only second 5 is known after the restart, so
			// it is due at the end of that second.
			w.wantDeletes(map[string]time.Duration{"p": 26 * sec})
		})
	}
}

func TestWhatWasDueDuringADowntimeIsEvictedAtTheStart(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", tolerating("k", 20))
		w.run()
		w.Until(5 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(sec)
		w.Stop()
		w.Until(100 * sec)
		w.run()
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 100 * sec})
	})
}

func TestTimeAddedIsWrittenWhereItIsMissing(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "schedule:NoSchedule")
		w.addPod("counts", tolerating("k", 100_000))
		w.run()
		w.Until(5*sec + 300*ms)
		w.Taint("n", "k=v:NoExecute")
		w.Pass(sec)
		for _, taint := range w.Node("n").Spec.Taints {
			switch {
			case taint.Key == "schedule" && taint.TimeAdded != nil:
				t.Errorf("the NoSchedule taint got timeAdded %v", taint.TimeAdded)
			case taint.Key == "k" && !taint.TimeAdded.Equal(new(metav1.NewTime(w.Start.Add(5*sec)))):
				t.Errorf("timeAdded is %v, want the second in which the taint was first seen", taint.TimeAdded)
			}
		}
		if got := w.Did("patch n"); len(got) != 1 {
			t.Errorf("the node was patched at %v, want once", got)
		}
	})
}

func TestTimeAddedIsTriedAgainAndNeverHoldsAnEvictionUp(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("patch", "nodes", "", func() error {
			return apierrors.NewConflict(corev1.Resource("nodes"), "n", errors.New("changed meanwhile"))
		})
		w.addNode("n")
		w.addPod("counts", tolerating("k", 100_000))
		w.addPod("p", tolerating("k", 20))
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 21 * sec})
		if tries := len(w.Did("patch n")); tries < 120 {
			t.Errorf("timeAdded was tried %d times in an hour, want one every 30 s at least", tries)
		}
	})
}

func TestAFailedDeleteIsRetriedIndefinitely(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var fixed atomic.Bool
		w.On("delete", "pods", "", func() error {
			if fixed.Load() {
				return nil
			}
			return apierrors.NewForbidden(podsResource, "p", errors.New("denied by a policy"))
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(24 * hour)
		tries := w.Did("delete p")
		wait := 100 * ms
		for i := range len(tries) - 1 {
			if got := tries[i+1] - tries[i]; got < wait*4/5 || got > wait {
				t.Fatalf("try %d came %v after the one before, want up to a fifth less than %v", i+2, got, wait)
			}
			wait = min(2*wait, 5*time.Minute)
		}
		if len(tries) < 285 {
			t.Errorf("%d tries in a day, want one every 5 minutes", len(tries))
		}
		fixed.Store(true)
		w.Pass(5 * time.Minute)
		if got := w.Did("delete p"); len(got) != len(tries)+1 {
			t.Errorf("%d more deletes once they are allowed, want one", len(got)-len(tries))
		}
		if got := w.Did("event Marking"); len(got) != 1 {
			t.Errorf("%d Marking events, want one for the whole eviction", len(got))
		}
	})
}

func TestOtherChangesOnTheNodeDoNotCutABackoffShort(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("delete", "pods", "", func() error { return apierrors.NewInternalError(errors.New("no")) })
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		before := len(w.Did("delete p"))
		for range 25 {
			w.Taint("n", "other:NoExecute")
			w.Pass(500 * ms)
			w.Taint("n", "other-")
			w.Pass(500 * ms)
		}
		if after := len(w.Did("delete p")); after > before+1 {
			t.Errorf("%d tries in 25 s, want the backoff of 30 s kept", after-before)
		}
	})
}

func TestRetryAfterOfA429IsHonoredAndTheDecisionMadeAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var throttled atomic.Int32
		w.On("delete", "pods", "", func() error {
			if throttled.Add(1) == 1 {
				return apierrors.NewTooManyRequests("slow down", 7)
			}
			return nil
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		if got := w.Did("delete p"); !slices.Equal(got, []time.Duration{sec, 8 * sec}) {
			w.T.Errorf("deletes at %v, want 1 s and 7 s later", got)
		}
	})
	play(t, func(_ *testing.T, w *world) {
		w.On("delete", "pods", "", func() error { return apierrors.NewTooManyRequests("slow down", 7) })
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(5 * sec)
		w.Taint("n", "k-")
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": sec})
	})
}

func TestAConditionThatCannotBeSetStopsBlockingTheDelete(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("patch", "pods", "status", func() error { return apierrors.NewInternalError(errors.New("webhook says no")) })
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		w.wantTries("patch p", sec, 100*ms, 200*ms)
		w.wantDeletes(map[string]time.Duration{"p": w.Did("patch p")[2]})
		if got := w.Did("event Deleted Pod default/p without the condition DisruptionTarget"); len(got) != 1 {
			t.Errorf("warning events at %v, want one", got)
		}
	})
}

func TestAnUnreachableServerDoesNotUseUpTheTriesOfTheCondition(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var up atomic.Bool
		w.On("patch", "pods", "status", func() error {
			if up.Load() {
				return nil
			}
			return errors.New("connection refused")
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(60 * sec)
		up.Store(true)
		w.Pass(60 * sec)
		if got := w.Did("event Deleted Pod"); len(got) > 0 {
			t.Error("the pod was deleted without its condition")
		}
		if got := w.Did("delete p"); len(got) != 1 {
			t.Errorf("deletes at %v, want one", got)
		}
	})
}

func TestTheConditionIsThereBeforeTheDelete(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p")
		w.Client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtimeObject, error) {
			pod, err := w.Client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", "p")
			if err != nil {
				t.Error(err)
				return false, nil, nil
			}
			conditions := pod.(*corev1.Pod).Status.Conditions
			want := corev1.PodCondition{
				Type: "DisruptionTarget", Status: "True", Reason: "DeletionByTaintManager",
				Message: "Taintkeeper: deleting due to NoExecute taint", ObservedGeneration: 7,
				LastTransitionTime: metav1.NewTime(w.Start.Add(5 * sec)),
			}
			if len(conditions) != 1 || !conditions[0].LastTransitionTime.Equal(&want.LastTransitionTime) {
				t.Errorf("conditions at the delete: %v", conditions)
				return false, nil, nil
			}
			want.LastTransitionTime = conditions[0].LastTransitionTime
			if conditions[0] != want {
				t.Errorf("condition is %+v, want %+v", conditions[0], want)
			}
			return false, nil, nil
		})
		w.run()
		w.Until(5 * sec)
		w.Taint("n", "k:NoExecute")
		w.wantDeletes(map[string]time.Duration{"p": 5 * sec})
	})
}

func TestAPodThatIsMarkedAlreadyIsNotMarkedAgain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var deny atomic.Bool
		deny.Store(true)
		w.On("delete", "pods", "", func() error {
			if deny.Load() {
				return apierrors.NewInternalError(errors.New("no"))
			}
			return nil
		})
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run()
		w.Pass(10 * sec)
		w.Stop()
		deny.Store(false)
		w.run() // another process continues where the first one stopped
		w.Pass(hour)
		if got := w.Did("patch p"); len(got) != 1 {
			t.Errorf("the condition was patched at %v, want once", got)
		}
	})
}

func TestGoneAndReplacedAreDone(t *testing.T) {
	for name, answer := range map[string]error{
		"not found":    apierrors.NewNotFound(podsResource, "p"),
		"UID conflict": apierrors.NewConflict(podsResource, "p", errors.New("the UID in the precondition does not match")),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.On("delete", "pods", "", func() error { return answer })
				w.Client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtimeObject, error) {
					return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "another"}}, nil
				})
				w.addNode("n")
				w.addPod("p")
				w.run()
				w.Until(sec)
				w.Taint("n", "k:NoExecute")
				w.Pass(50 * sec) // before the next look at the node, at which the cache would have to show it
				if got := w.Did("delete p"); len(got) != 1 {
					t.Errorf("deletes at %v, want one and no retry", got)
				}
			})
		})
	}
}

func TestAConflictOfAnotherKindIsTriedAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var calls atomic.Int32
		w.On("delete", "pods", "", func() error {
			if calls.Add(1) < 3 {
				return apierrors.NewConflict(podsResource, "p", errors.New("a webhook is busy"))
			}
			return nil
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		w.wantTries("delete p", sec, 100*ms, 200*ms)
	})
}

func TestEveryDeleteHasAUIDPreconditionAndThePodsOwnGracePeriod(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run()
		w.Pass(sec)
		for _, action := range w.Client.Actions() {
			deletion, ok := action.(clienttesting.DeleteActionImpl)
			if !ok {
				continue
			}
			options := deletion.DeleteOptions
			if options.Preconditions == nil || options.Preconditions.UID == nil || *options.Preconditions.UID != "uid-of-p" {
				t.Errorf("preconditions are %v, want the pod's UID", options.Preconditions)
			}
			if options.GracePeriodSeconds != nil {
				t.Errorf("grace period is %d, want the pod's own", *options.GracePeriodSeconds)
			}
			return
		}
		t.Error("nothing was deleted")
	})
}

func TestWhatIsNeverEvicted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "k:NoExecute")
		w.addPod("mirror", func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		})
		w.addPod("terminating", func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) })
		w.addPod("unbound", func(pod *corev1.Pod) { pod.Spec.NodeName = "" })
		w.addPod("orphan", func(pod *corev1.Pod) { pod.Spec.NodeName = "no-such-node" })
		w.run()
		w.Pass(hour)
		w.wantDeletes(nil)
		if got := w.Did("patch"); len(got) != 1 { // the node's timeAdded
			t.Errorf("patches at %v, want none of a pod", got)
		}
	})
}

func TestATerminatingPodIsNotDeletedTwice(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.Client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtimeObject, error) {
			w.Book.Note(action)
			return true, nil, nil // accepted, but the watch says nothing about it yet
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "a:NoExecute")
		for range 10 {
			w.Pass(sec)
			w.Taint("n", "b:NoExecute")
			w.Pass(sec)
			w.Taint("n", "b-")
		}
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": sec})
	})
}

func TestAStaleNodeCacheEvictsNothing(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "k:NoExecute")
		w.run()
		w.Pass(sec)
		// The node is untainted, which the watch of nodes has not brought yet, and the watch of pods brings a new pod.
		w.Client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtimeObject, error) {
			return true, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-of-node-n"}}, nil
		})
		w.addPod("p")
		w.Pass(hour)
		w.wantDeletes(nil)
		if got := len(w.Did("patch p")) + len(w.Did("event Marking")); got > 0 {
			t.Errorf("%d patches and events of the pod, want none", got)
		}
	})
}

// The answer to the patch, or a read if there is nothing to patch, shows what the watch of pods has not brought yet.
func TestAPodIsDecidedAboutAsTheAPIServerHasItNotAsItsWatchDoes(t *testing.T) {
	tolerates := func(pod *corev1.Pod) { tolerating("k", 600)(pod) }
	terminates := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	for name, change := range map[string]func(*corev1.Pod){"it tolerates the taint by now": tolerates, "it terminates by now": terminates} {
		for verb, marked := range map[string]bool{"patch": false, "get": true} {
			t.Run(name+", says the answer to a "+verb, func(t *testing.T) {
				play(t, func(_ *testing.T, w *world) {
					w.addNode("n")
					w.addPod("p", func(pod *corev1.Pod) {
						if marked {
							markedByTaint(pod)
						}
					})
					w.run()
					w.Client.PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtimeObject, error) {
						pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid-of-p"}, Spec: corev1.PodSpec{NodeName: "n"}}
						markedByTaint(pod)
						change(pod)
						return true, pod, nil
					})
					w.Taint("n", "k:NoExecute")
					w.Pass(sec)
					w.wantDeletes(nil)
				})
			})
		}
	}
}

func markedByTaint(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: v1alpha1.TaintEvictionReason, Message: v1alpha1.MarkMessage,
	}}
}

func TestTheNodeIsReadOnceForAllItsPods(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		for i := range 50 {
			w.addPod("p" + strings.Repeat("x", i))
		}
		w.run()
		w.Client.ClearActions()
		w.Taint("n", "k:NoExecute")
		w.Pass(sec)
		reads := -1 // without the test's own read, to edit the taints; the stamper shares the read that is counted
		for _, action := range w.Client.Actions() {
			if action.Matches("get", "nodes") {
				reads++
			}
		}
		if got := len(w.Did("delete")); got != 50 || reads != 1 {
			t.Errorf("%d pods were deleted with %d live reads of the node, want 50 with one", got, reads)
		}
	})
}

func TestEarliestDueFirstThenLowestPriority(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var down atomic.Bool
		down.Store(true)
		w.Client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtimeObject, error) {
			if down.Load() {
				return true, nil, errors.New("connection refused")
			}
			return false, nil, nil
		})
		w.addNode("n", "k:NoExecute")
		w.addPod("later-low", tolerating("k", 9), priorityOf(1))
		w.addPod("sooner-high", tolerating("k", 5), priorityOf(1000))
		w.addPod("sooner-low", tolerating("k", 5), priorityOf(-1000))
		w.Until(20 * sec)
		down.Store(false)
		w.run(func(c *Config) { c.ConcurrentEvictions = 1 })
		w.Pass(hour)
		order := w.deleted()
		if want := []string{"sooner-low", "sooner-high", "later-low"}; !slices.Equal(order, want) {
			t.Errorf("deleted in the order %v, want %v", order, want)
		}
	})
}

func TestADryRunChangesNothing(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "k:NoExecute")
		w.addPod("now")
		w.addPod("later", tolerating("k", 20))
		w.run(func(c *Config) { c.Mode = DryRun })
		w.Client.ClearActions()
		w.Pass(24 * hour)
		w.wantDeletes(nil)
		if got := w.Did("patch"); len(got) > 0 {
			t.Errorf("patches at %v, want none", got)
		}
		for _, name := range []string{"now", "later"} {
			if got := w.Did("event Marking for deletion Pod default/" + name + " (dry run)"); len(got) != 1 {
				t.Errorf("events about %s at %v, want one that is marked as a dry run's", name, got)
			}
		}
		w.wantMetric("taintkeeper_evictions_total", "dry_run", 2)
		w.wantMetric("taintkeeper_evictions_total", "deleted", 0)
	})
}

func TestAShutdownFinishesTheCallInFlightAndStartsNoOther(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("patch", "pods", "status", func() error {
			w.InCall(5 * sec)
			return nil
		})
		// The fake clientset answers one call at a time, so nothing else may call it meanwhile.
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", tolerating("k", 10))
		w.run(func(c *Config) { c.EventClient = fake.NewClientset() })
		w.Until(11 * sec)
		began := time.Now()
		w.Stop()
		if took := time.Since(began); took != 4*sec {
			t.Errorf("the shutdown took %v, want the 4 s that the patch still needed", took)
		}
		w.Pass(hour)
		if got := w.Did("patch p"); len(got) != 1 {
			t.Errorf("patches at %v, want the one in flight to have come through", got)
		}
		w.wantDeletes(nil)
	})
}

func TestTheMetricsSayWhatIsAhead(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addNode("tainted-and-empty", "k:NoExecute")
		w.addPod("ten", tolerating("k", 10))
		w.addPod("forty", tolerating("k", 40))
		w.addPod("stays", tolerating("k", math.MaxInt64))
		w.run()
		w.Until(sec)
		w.wantMetric("taintkeeper_pending_evictions", "", 0)
		w.wantNoMetric("taintkeeper_next_eviction_seconds")
		w.Taint("n", "k:NoExecute")
		w.Until(5 * sec)
		w.wantMetric("taintkeeper_pending_evictions", "", 3)
		w.wantMetric("taintkeeper_next_eviction_seconds", "", 6)
		w.wantMetric("taintkeeper_tainted_nodes", "", 2)
		w.Until(12 * sec)
		w.wantMetric("taintkeeper_pending_evictions", "", 2)
		w.wantMetric("taintkeeper_next_eviction_seconds", "", 29)
		w.wantMetric("taint_eviction_controller_pod_deletions_total", "", 1)
		problems, err := testutil.GatherAndLint(w.Registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("the metrics do not lint: %v %v", problems, err)
		}
	})
}

func TestTheMetricsSayForHowLongThePodThatWaitsForLongestHasBeenDue(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.On("delete", "pods", "", func() error {
			if time.Since(w.Start) < 20*sec {
				return apierrors.NewTooManyRequests("slow down", 1)
			}
			return nil
		})
		w.addNode("n")
		w.addPod("at-once")
		w.addPod("ten", tolerating("k", 10))
		w.run()
		w.wantMetric("taintkeeper_overdue_seconds", "", 0)
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(16 * sec)
		w.wantMetric("taintkeeper_due_evictions", "", 2)
		w.wantMetric("taintkeeper_overdue_seconds", "", 15)
		w.Pass(hour)
		w.wantMetric("taintkeeper_overdue_seconds", "", 0)
	})
}

func TestUpstreamsHistogramIsInSeconds(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var calls atomic.Int32
		w.On("delete", "pods", "", func() error {
			if calls.Add(1) == 1 {
				return apierrors.NewTooManyRequests("slow down", 20)
			}
			return nil
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		w.wantLateness(20 * sec)
	})
}

func TestConcurrentDueInstantsAreAllMet(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		want := map[string]time.Duration{}
		for i := range 100 {
			name := "p" + strings.Repeat("x", i)
			w.addPod(name, tolerating("k", int64(i)))
			want[name] = sec + time.Duration(i)*sec
		}
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		w.wantDeletes(want)
	})
}

func priorityOf(priority int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &priority }
}

// tolerationSeconds changes those of a pod's first toleration.
func tolerationSeconds(n int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations[0].TolerationSeconds = &n }
}
