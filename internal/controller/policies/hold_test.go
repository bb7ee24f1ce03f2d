// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const sec = time.Second

func hold(deadline time.Duration) v1alpha1.EvictionPolicySpec {
	spec := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}
	if deadline > 0 {
		spec.Deadline = &metav1.Duration{Duration: deadline}
	}
	return spec
}

func TestAHeldPodStaysWithoutAMarkAndWithOneEvent(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		w.AddPod("p", "n")
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(5 * time.Minute)
		w.Taint("n", "k-")
		w.Pass(time.Minute)
		w.wantLeft(nil)
		w.wantCount("patch p", 0)
		w.wantCount("event p EvictionHeld: Pod default/p is due to leave, but stays: EvictionPolicy stay holds it", 1)
	})
}

func TestAPodLeavesAtOnceWhenItsPolicyIsDeleted(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		w.AddPod("p", "n")
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Until(40 * sec)
		w.remove("stay")
		w.Pass(sec)
		w.wantLeft(map[string]time.Duration{"p": 40 * sec})
		w.wantCount("patch p", 1)
	})
}

func TestADeadlineEndsTheHold(t *testing.T) {
	play(t, func(w *world) {
		w.add("minute", hold(time.Minute))
		w.AddPod("p", "n", scene.Tolerating("k", 10))
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Until(5 * time.Minute)
		w.wantLeft(map[string]time.Duration{"p": 70 * sec})
	})
}

func TestADeadlineDoesNotEndAPause(t *testing.T) {
	play(t, func(w *world) {
		spec := hold(time.Minute)
		reason := "we look at the network"
		spec.Paused = &reason
		w.add("pause", spec)
		w.AddPod("p", "n")
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Until(5 * time.Minute)
		w.wantLeft(nil)
		w.wantCount("event p EvictionHeld: Pod default/p is due to leave, but stays: EvictionPolicy pause is paused: we look at the network", 1)
		w.edit("pause", func(spec *v1alpha1.EvictionPolicySpec) { spec.Paused = nil })
		w.Pass(5 * time.Minute)
		w.wantLeft(map[string]time.Duration{"p": 6 * time.Minute}) // it counts from the end of the pause
	})
}

func TestTheFirstTaintThatLetsAPodGoDecides(t *testing.T) {
	play(t, func(w *world) {
		spec := hold(0)
		spec.Taints = []v1alpha1.EvictionPolicyTaint{{Key: "maintenance"}}
		w.add("maintenance", spec)
		w.AddPod("p", "n", scene.Tolerating("broken", 30))
		w.AddPod("q", "m")
		w.run()
		w.Taint("n", "maintenance:NoExecute", "broken:NoExecute")
		w.Taint("m", "maintenance:NoExecute")
		w.Until(time.Minute)
		w.wantLeft(map[string]time.Duration{"p": 30 * sec})
		w.Taint("m", corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute")
		w.Pass(sec)
		w.wantLeft(map[string]time.Duration{"p": 30 * sec, "q": time.Minute})
	})
}

func TestLabelsOfPodNamespaceAndNodeHoldAndFreeWhileDue(t *testing.T) {
	play(t, func(w *world) {
		w.add("pods", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, PodSelector: matching("tier", "db")})
		w.add("namespaces", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, NamespaceSelector: matching("team", "a")})
		w.add("nodes", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, NodeSelector: matching("pool", "gold")})
		in := func(namespace string) func(*corev1.Pod) {
			return func(pod *corev1.Pod) { pod.Namespace = namespace }
		}
		w.addNamespace("a", map[string]string{"team": "a"})
		w.AddPod("by-its-own", "n", labeled("tier", "db"))
		w.AddPod("by-its-namespace", "n", in("a"))
		w.AddPod("by-its-node", "m")
		w.AddPod("free", "n")
		w.ChangeNode("m", func(node *corev1.Node) { node.Labels["pool"] = "gold" })
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Taint("m", "k:NoExecute")
		w.Until(10 * sec)
		w.ChangePod("by-its-own", labeled("tier", "web"))
		w.Until(20 * sec)
		w.Must(nil, w.policies.Update(w.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
		w.Until(30 * sec)
		w.ChangeNode("m", func(node *corev1.Node) { delete(node.Labels, "pool") })
		w.Pass(sec)
		w.wantLeft(map[string]time.Duration{
			"free": sec, "by-its-own": 10 * sec, "by-its-namespace": 20 * sec, "by-its-node": 30 * sec,
		})
	})
}

func matching(key, value string) *v1alpha1.Selector {
	return &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}}
}

func TestAPolicyWithANewKeyHoldsAtOnceWhatItSelects(t *testing.T) {
	play(t, func(w *world) {
		w.AddPod("db", "n", labeled("tier", "db"), scene.Tolerating("k", 30))
		w.AddPod("web", "n", labeled("tier", "web"), scene.Tolerating("k", 30))
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Until(29 * sec)
		w.add("db", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, PodSelector: matching("tier", "db")})
		w.Until(time.Minute)
		w.wantLeft(map[string]time.Duration{"web": 30 * sec})
	})
}

func TestAPodThatWasMarkedAndIsHeldLosesTheMark(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		w.AddPod("p", "n", func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
				Message: "Taintkeeper: deleting due to NoExecute taint",
			}}
		})
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Until(sec)
		patches := len(w.Did("patch p"))
		if patches == 0 || patches > 2 { // the second, if the watch has not brought the first yet
			t.Errorf("the mark was patched %d times", patches)
		}
		w.Until(time.Minute)
		w.wantLeft(nil)
		w.wantCount("patch p", patches)
		for _, c := range w.Pod("p").Status.Conditions {
			if c.Type == corev1.DisruptionTarget && (c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "EvictionPolicy stay holds it")) {
				w.T.Errorf("the condition is %s: %q", c.Status, c.Message)
			}
		}
	})
}

func TestAPauseWhileAPodIsBeingMarkedKeepsIt(t *testing.T) {
	play(t, func(w *world) {
		w.add("stop", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Finished: v1alpha1.FinishedKeep})
		w.AddPod("p", "n")
		w.run(func(c *eviction.Config) {
			c.Client = &bubble.Slow{Clientset: w.Client, Before: func(ctx context.Context, r bubble.Request) error {
				if r.Verb == "patch" && r.Resource == "pods" {
					return bubble.Takes(ctx, 2*sec)
				}
				return nil
			}}
		})
		w.Taint("n", "k:NoExecute")
		w.Until(sec)
		reason := "stop"
		w.edit("stop", func(spec *v1alpha1.EvictionPolicySpec) { spec.Paused = &reason })
		w.Until(time.Minute)
		w.wantLeft(nil)
		for _, c := range w.Pod("p").Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status != corev1.ConditionFalse {
				w.T.Errorf("the condition is %s: %q", c.Status, c.Message)
			}
		}
	})
}

func TestHeldPodsAreNeitherOverdueNorASignOfTrouble(t *testing.T) {
	play(t, func(w *world) {
		spec := hold(0)
		spec.PodSelector = matching("tier", "db")
		w.add("db", spec)
		w.AddPod("db", "n", labeled("tier", "db"))
		w.AddPod("web", "m")
		w.On("delete", "pods", "", func() error { return errRefused })
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(10 * time.Minute)
		if w.evictor.Stalled(30 * sec) {
			w.T.Error("the Evictor takes itself for stalled, because a pod is held")
		}
		w.Taint("m", "k:NoExecute")
		w.Pass(sec)
		w.wantHeld("db", "Held", 1)
		overdue := w.evictor.Overdue()
		if _, held := overdue["n"]; held || overdue["m"].Pods != 1 {
			w.T.Errorf("%v are overdue, want one pod of node m", overdue)
		}
	})
}

var errRefused = apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("no"))

func TestWithoutTheResourceNoPolicyObjects(t *testing.T) {
	play(t, func(w *world) {
		w.missing.Store(true)
		w.AddPod("p", "n")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		w.wantLeft(map[string]time.Duration{"p": sec})
		w.missing.Store(false)
		w.add("stay", hold(0))
		w.Pass(2 * sec)
		w.AddPod("q", "n")
		w.Until(4 * time.Minute)
		w.wantLeft(map[string]time.Duration{"p": sec})
	})
}

func TestWhileTheResourceComesBackNothingLeaves(t *testing.T) {
	play(t, func(w *world) {
		w.missing.Store(true)
		w.AddPod("p", "n")
		w.run()
		w.Until(sec)
		w.missing.Store(false)
		w.down.Store(true)
		w.Pass(2 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		w.wantLeft(nil)
		w.wantCount("keep p", 0)
		w.down.Store(false)
		w.Until(2 * time.Minute)
		w.wantCount("delete p", 1)
		w.wantCount("event p EvictionHeld: Pod default/p is due to leave, but stays: Taintkeeper cannot read the EvictionPolicies yet", 1)
	})
}

func TestAProcessThatStartsBeforeTheAPIServerAnswersFindsThatThereAreNoPolicies(t *testing.T) {
	play(t, func(w *world) {
		w.missing.Store(true)
		w.down.Store(true)
		w.AddPod("p", "n")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * sec)
		w.wantLeft(nil)
		w.down.Store(false)
		w.Until(2 * time.Minute)
		w.wantCount("delete p", 1)
	})
}

func TestAProcessThatMayNotListPoliciesEndsAndEvictsNothing(t *testing.T) {
	play(t, func(w *world) {
		w.secret.Store(true)
		w.AddPod("p", "n")
		ended := make(chan error, 1)
		go func() { ended <- w.process()(w.T.Context()) }()
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "the right to list EvictionPolicies") {
				w.T.Errorf("it ends with %v", err)
			}
		default:
			w.T.Error("it goes on")
		}
		w.wantLeft(nil)
	})
}

func TestNoDeleteBeginsAfterAPauseIsSeenWhile1000PodsLeave(t *testing.T) {
	play(t, func(w *world) {
		w.add("stop", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Finished: v1alpha1.FinishedKeep})
		w.addPods(500, 500)
		var deletes atomic.Int32
		w.run(func(c *eviction.Config) {
			c.Client = &bubble.Slow{Clientset: w.Client, Before: func(ctx context.Context, r bubble.Request) error {
				if r.Verb == "delete" {
					deletes.Add(1)
				}
				return bubble.Takes(ctx, 40*time.Millisecond)
			}}
		})
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Taint("m", "k:NoExecute")
		w.Pass(sec)
		w.edit("stop", func(spec *v1alpha1.EvictionPolicySpec) { spec.Paused = new("stop") }) // it is seen when this returns
		begun := deletes.Load()
		w.Pass(time.Minute)
		if got := deletes.Load(); got != begun || begun < 50 || begun > 900 {
			t.Errorf("%d deletes had begun when the pause was seen, %d a minute later", begun, got)
		}
		w.edit("stop", func(spec *v1alpha1.EvictionPolicySpec) { spec.Paused = nil })
		w.Pass(time.Minute)
		if got := deletes.Load(); got < 1000 {
			t.Errorf("%d deletes have begun a minute after the pause, want 1000", got)
		}
	})
}

func TestAPodOfANamespaceThatIsBeingDeletedIsNotHeldAndWaitsForNoPace(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		w.add("slow", paceOf(1, time.Hour, v1alpha1.ScopeCluster))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ends", Finalizers: []string{"kubernetes"}}}
		w.Must(nil, w.policies.Create(t.Context(), namespace))
		for _, pod := range []string{"p", "q"} {
			w.AddPod(pod, "n", func(pod *corev1.Pod) { pod.Namespace = "ends" })
		}
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(time.Minute)
		w.wantLeft(nil)
		w.Must(nil, w.policies.Delete(t.Context(), namespace))
		w.Pass(sec)
		w.wantLeft(left(time.Minute, "p", "q"))
	})
}

func TestNothingLeavesWithoutAWorkingWatchOfPolicies(t *testing.T) {
	play(t, func(w *world) {
		w.AddPod("p", "n")
		w.run()
		w.Until(sec)
		w.secret.Store(true)
		w.Until(3 * time.Minute) // the watch, which brings nothing, is opened again
		if w.follower.Ready() == nil || w.follower.Known() {
			w.T.Error("it is ready without a watch of policies")
		}
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Hour)
		w.wantLeft(nil)
		w.wantCount("keep p", 1)
		w.wantCount("event p EvictionHeld: Pod default/p is due to leave, but stays: Taintkeeper cannot read the EvictionPolicies yet", 1)
		back := w.Now()
		w.secret.Store(false)
		w.Pass(time.Minute)
		w.wantCount("delete p", 1)
		if at := w.Did("delete p")[0]; at > back+2*sec {
			w.T.Errorf("it left at %s, but the policies could be read again at %s", at, back)
		}
		if err := w.follower.Ready(); err != nil {
			w.T.Error("the watch works:", err)
		}
	})
}

// The PATCH that takes the mark away is carried out late: after the eviction could have read the mark, and before its
// DELETE.
func TestTheMarkIsNotTakenFromAPodThatLeaves(t *testing.T) {
	play(t, func(w *world) {
		var refuse, slow atomic.Bool
		refuse.Store(true)
		w.On("delete", "pods", "", func() error {
			if refuse.Load() {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.Client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch, patches := action.(clienttesting.PatchActionImpl)
			switch {
			case !slow.Load():
			case patches && strings.Contains(string(patch.Patch), `"False"`):
				w.Client.Unlock()
				w.InCall(120 * time.Millisecond)
				w.Client.Lock()
			case action.GetVerb() == "get":
				live, err := w.Client.Tracker().Get(action.GetResource(), "default", "p")
				w.Client.Unlock()
				w.InCall(100 * time.Millisecond)
				w.Client.Lock()
				return true, live, err
			}
			return false, nil, nil
		})
		spec := hold(0)
		spec.DryRun = true
		w.add("stay", spec)
		w.AddPod("p", "n")
		w.run()
		w.Until(20 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(20 * time.Millisecond) // it is marked, and its DELETE is refused
		slow.Store(true)
		refuse.Store(false)
		w.edit("stay", func(s *v1alpha1.EvictionPolicySpec) { s.DryRun = false })
		w.Pass(50 * time.Millisecond)
		w.edit("stay", func(s *v1alpha1.EvictionPolicySpec) { s.DryRun = true })
		w.Pass(5 * sec)
		w.wantCount("delete p", 2)
		var marks []string
		for _, call := range w.Book.Calls() {
			if strings.HasPrefix(call.What, "patch p") {
				marks = append(marks, call.What)
			}
		}
		if len(marks) == 0 || strings.Contains(marks[len(marks)-1], `"False"`) {
			t.Errorf("the pod left after %q", marks)
		}
	})
}
