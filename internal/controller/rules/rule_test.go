// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// This machine's clock is behind. The next leader's may be right: pods would then leave too early because of a
// timeAdded that is too early.
func TestTimeAddedIsTheAPIServersTime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		const behind = 5 * time.Minute
		clock := &timeline.Clock{}
		clock.Heard(time.Now().Add(behind), time.Now())
		w.addZone("a", 1)
		w.addRule("deadlock")
		w.run(func(c *Config) { c.Clock = clock })
		w.locks("a-0")
		w.waitForPlans()
		w.WantTaints("a-0", deadlocked)
		if early := time.Now().Add(behind - 2*time.Second).Sub(w.Node("a-0").Spec.Taints[0].TimeAdded.Time); early > 0 {
			t.Errorf("timeAdded is %s before the API server's clock", early)
		}
	})
}

func TestARulesTaintComesWhenTheConditionHasHeldForLongEnough(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock", comesAfter(time.Minute))
		w.run()
		w.Until(5 * time.Second)
		w.locks("a-0")
		w.Until(64 * time.Second)
		w.WantTaints("a-0")
		w.waitForPlans()
		w.wantStatus("deadlock", [4]int32{3, 1, 0, 0}, "Accepted", "NoNodeHeld")
		w.Until(66 * time.Second)
		w.WantTaints("a-0", deadlocked)
		if added := w.Node("a-0").Spec.Taints[0].TimeAdded; added == nil || time.Since(added.Time) > 2*time.Second {
			t.Errorf("it was added at %v, want now", added)
		}
		if patches := w.Did("patch nodes a-0/"); len(patches) != 1 {
			t.Errorf("patches at %v, want one of the taint and of what says whose it is", patches)
		}
		w.waitForPlans()
		w.wantStatus("deadlock", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
		w.wantMetric("tainted", 1)
		w.wantDeadlocked("a-0")
	})
}

func TestAConditionThatFlapsNeverTaints(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock", comesAfter(30*time.Second))
		w.run()
		for i := range 20 {
			w.locks("a-0")
			w.Until(time.Duration(i+1) * 25 * time.Second)
			w.unlocks("a-0")
		}
		if patches := w.Did("patch nodes a-0/"); len(patches) != 0 {
			t.Errorf("patches at %v, want none", patches)
		}
	})
}

func TestARulesTaintGoesWhenTheConditionHasBeenOverForLongEnough(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock", goesAfter(time.Minute))
		w.run()
		w.locks("a-0", "a-1", "a-2")
		w.waitForPlans()
		w.wantDeadlocked("a-0", "a-1", "a-2")
		w.Until(10 * time.Second)
		w.unlocks("a-0", "a-1")
		w.ChangeNode("a-2", func(n *corev1.Node) { // the condition vanishes
			n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == deadlock })
		})
		w.Until(60 * time.Second)
		w.locks("a-1") // again: it was never over for long enough
		w.Until(69 * time.Second)
		w.wantDeadlocked("a-0", "a-1", "a-2")
		w.Until(72 * time.Second)
		w.wantDeadlocked("a-1")
		if label, ok := w.Node("a-0").Labels[v1alpha1.TaintedLabelPrefix+"deadlock"]; ok {
			t.Errorf("node a-0 still has the label of the rule: %s", label)
		}
		w.Until(5 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}

func TestARuleWithReasonsTaintsWhileTheConditionHasOneOfThem(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock", becauseOf("DockerHung", "KubeletHung"), goesAfter(30*time.Second))
		w.run()
		says := func(name, reason string) {
			w.ChangeNode(name, func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: deadlock, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(w.Start)}}
			})
		}
		says("a-0", "DockerHung")
		says("a-1", "DiskHung")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.wantStatus("deadlock", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
		says("a-0", "KubeletHung")
		says("a-1", "KubeletHung")
		w.Until(time.Minute)
		w.wantDeadlocked("a-0", "a-1")
		says("a-0", "DiskHung")
		w.Until(89 * time.Second)
		w.wantDeadlocked("a-0", "a-1")
		w.Until(91 * time.Second)
		w.wantDeadlocked("a-1")
	})
}

func TestAConditionOfTheFutureCountsFromWhenItWasSeen(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 2)
		w.addRule("deadlock", comesAfter(30*time.Second))
		w.run()
		w.ChangeNode("a-0", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: deadlock, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(20 * time.Second))})
		})
		w.ChangeNode("a-1", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: deadlock, Status: corev1.ConditionTrue})
		})
		w.Until(29 * time.Second)
		w.wantDeadlocked()
		w.Until(32 * time.Second)
		w.wantDeadlocked("a-0", "a-1")
	})
}

func TestWithoutALiveListOfItsNodesARuleWithABoundAddsNoTaint(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 4)
		w.addRule("deadlock", atMost(intstr.FromInt32(2)))
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.unlistable.Store(true)
		w.locks("a-1")
		w.Until(time.Minute)
		w.wantDeadlocked("a-0")
		w.unlocks("a-0") // what goes needs no list
		w.waitForPlans()
		w.wantDeadlocked()
		w.unlistable.Store(false)
		w.Until(2 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}

func TestTheNodesOfARuleAreListedOnlyWhenATaintWouldBeAdded(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 5)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)), goesAfter(time.Hour))
		w.addRule("unbounded", func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Key = "example.com/unbounded" })
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.WantTaints("a-0", deadlocked, "example.com/unbounded:NoSchedule")
		for range 10 {
			w.locks("a-1", "a-2", "a-3")
			w.waitForPlans()
			w.unlocks("a-0", "a-1")
			w.waitForPlans()
		}
		w.wantDeadlocked("a-0")
		if got := w.listed.Load(); got != 1 {
			t.Errorf("%d lists, want one before the first taint of the rule with a bound", got)
		}
	})
}

func TestANodeThatIsNoLongerSelectedLosesTheTaintAtOnce(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 2)
		w.addZone("b", 2)
		selects := func(zone string) func(r *v1alpha1.NodeTaintRule) {
			return func(r *v1alpha1.NodeTaintRule) {
				r.Spec.NodeSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelTopologyZone: v1alpha1.LabelValue(zone)}}
			}
		}
		w.addRule("deadlock", goesAfter(time.Hour), selects("a"))
		w.run()
		w.locks("a-0", "a-1", "b-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0", "a-1")
		w.wantStatus("deadlock", [4]int32{2, 2, 2, 0}, "Accepted", "NoNodeHeld")
		w.ChangeNode("a-1", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "b" })
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.changeRule(selects("b"))
		w.wantDeadlocked("a-1", "b-0")
		w.wantStatus("deadlock", [4]int32{3, 2, 2, 0}, "Accepted", "NoNodeHeld")
	})
}

func TestBeyondMaxTaintedNodesWaitAndAreReleasedInTheOrderOfTheirConditions(t *testing.T) {
	for name, bound := range map[string]intstr.IntOrString{"as a number": intstr.FromInt32(2), "as a percentage, rounded down": intstr.FromString("29%")} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.addZone("a", 10)
				w.addRule("deadlock", atMost(bound))
				w.run()
				for i, name := range []string{"a-7", "a-3", "a-9", "a-1", "a-0"} {
					w.Until(time.Duration(i+1) * 10 * time.Second)
					w.locks(name)
				}
				w.waitForPlans()
				w.wantDeadlocked("a-3", "a-7")
				w.wantStatus("deadlock", [4]int32{10, 5, 2, 3}, "Accepted", "MaxTainted")
				w.wantMetric("held", 3)
				if events := w.Did("event deadlock TaintHeld 1 node waits for taint " + deadlocked); len(events) != 1 {
					t.Errorf("told at %v that nodes wait, want once", events)
				}
				w.unlocks("a-7")
				w.waitForPlans()
				w.waitForPlans()
				w.wantDeadlocked("a-3", "a-9")
				w.unlocks("a-3", "a-1")
				w.waitForPlans()
				w.waitForPlans()
				w.wantDeadlocked("a-0", "a-9")
				w.wantStatus("deadlock", [4]int32{10, 2, 2, 0}, "Accepted", "NoNodeHeld")
				if events := w.Did("event deadlock TaintNoLongerHeld"); len(events) != 1 {
					t.Errorf("told at %v that no node waits anymore, want once", events)
				}
			})
		})
	}
}

func TestNeverMoreThanMaxTaintedHaveTheTaintHoweverTheWritesGo(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 8)
		var calls atomic.Int32
		w.onPatch(func() error {
			if calls.Add(1)%3 != 0 {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		most := w.mostDeadlocked()
		w.addRule("deadlock", atMost(intstr.FromInt32(2)))
		w.run()
		for i := range 150 {
			w.locks(nodes[i%8], nodes[(i*3+1)%8])
			w.Pass(time.Duration(i%5) * 130 * time.Millisecond)
			w.unlocks(nodes[(i*5+2)%8])
		}
		if got := most(); got != 2 {
			t.Errorf("up to %d nodes were tainted at once, want 2", got)
		}
	})
}

func TestALoweredMaxTaintedStopsNodesThatWereChosenAndNotYetTainted(t *testing.T) {
	for name, test := range map[string]struct {
		bound     intstr.IntOrString
		meanwhile int32 // held
		want      []string
		counts    [4]int32
		reason    string
	}{
		"to none":     {intstr.FromInt32(0), 8, nil, [4]int32{8, 8, 0, 8}, "MaxTainted"},
		"to some":     {intstr.FromInt32(2), 6, []string{"a-6", "a-7"}, [4]int32{8, 8, 2, 6}, "MaxTainted"},
		"to a share":  {intstr.FromString("40%"), 5, []string{"a-5", "a-6", "a-7"}, [4]int32{8, 8, 3, 5}, "MaxTainted"},
		"to too many": {intstr.FromInt32(9), 0, []string{"a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7"}, [4]int32{8, 8, 8, 0}, "NoNodeHeld"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				nodes := w.addZone("a", 8)
				w.addRule("deadlock")
				w.run()
				away := w.awayWebhook()
				for _, node := range slices.Backward(nodes) {
					w.locks(node)
					w.Pass(2 * time.Second)
				}
				most := w.mostDeadlocked()
				w.changeRule(atMost(test.bound))
				w.Until(time.Minute)
				w.wantStatus("deadlock", [4]int32{8, 8, 0, test.meanwhile}, "Accepted", test.reason)
				away.Store(false)
				w.Until(3 * time.Minute)
				w.wantDeadlocked(test.want...)
				w.wantStatus("deadlock", test.counts, "Accepted", test.reason)
				if got := int(most()); got != len(test.want) {
					t.Errorf("up to %d nodes were tainted at once, want %d", got, len(test.want))
				}
				if events := w.Did("event deadlock TaintNoLongerHeld"); len(events) != 0 {
					t.Errorf("told at %v that no node waits anymore", events)
				}
			})
		})
	}
}

func TestALoweredMaxTaintedTakesNoTaintOff(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 4)
		w.addRule("deadlock")
		w.run()
		w.locks(nodes[:3]...)
		w.waitForPlans()
		w.changeRule(atMost(intstr.FromInt32(1)))
		w.locks(nodes[3])
		w.waitForPlans()
		w.wantDeadlocked(nodes[:3]...)
		w.wantStatus("deadlock", [4]int32{4, 4, 3, 1}, "Accepted", "MaxTainted")
	})
}

// mostDeadlocked watches how many nodes have the taint at once, and returns a function that returns the most so far.
func (w *world) mostDeadlocked() func() int32 {
	w.T.Helper()
	stream, err := w.Client.CoreV1().Nodes().Watch(w.T.Context(), metav1.ListOptions{})
	w.Must(nil, err)
	w.T.Cleanup(stream.Stop)
	var most atomic.Int32
	go func() {
		tainted := map[string]bool{}
		for event := range stream.ResultChan() {
			node := event.Object.(*corev1.Node)
			delete(tainted, node.Name)
			if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/deadlock" }) {
				tainted[node.Name] = true
			}
			most.Store(max(most.Load(), int32(len(tainted))))
		}
	}()
	return most.Load
}

func TestOfTwoRulesWithOneTaintTheOlderWinsAndTheOtherTakesOverWhenItGoes(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("z-first")
		w.Until(5 * time.Second)
		w.addRule("a-second", func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Value = "second" })
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.WantTaints("a-0", deadlocked)
		w.wantStatus("a-second", [4]int32{}, "TaintConflict", "NoNodeHeld")
		if message := w.rule("a-second").Status.Conditions[0].Message; !strings.Contains(message, "z-first") {
			t.Errorf("%q does not name the other rule", message)
		}
		w.deleteRule("z-first")
		w.waitForPlans()
		w.WantTaints("a-0", "example.com/deadlock=second:NoSchedule")
		w.wantStatus("a-second", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
		if !w.isGone("z-first") {
			t.Error("the deleted rule is still there")
		}
	})
}

func TestARuleMayNotOwnAKeyOfKubernetes(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("taken", func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Key = "node.kubernetes.io/not-ready" })
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.WantTaints("a-0")
		w.wantStatus("taken", [4]int32{}, "BuiltInKey", "NoNodeHeld")
	})
}

func TestADeletedRuleStaysUntilItsTaintsAreOffAllNodes(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 5)
		w.addRule("deadlock", goesAfter(time.Hour))
		w.run()
		w.locks(nodes...)
		w.waitForPlans()
		w.wantDeadlocked(nodes...)
		if finalizers := w.rule("deadlock").Finalizers; !slices.Equal(finalizers, []string{v1alpha1.Finalizer}) {
			t.Errorf("finalizers are %q", finalizers)
		}
		var refuse atomic.Bool
		refuse.Store(true)
		w.onPatch(func() error {
			if refuse.Load() {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.deleteRule("deadlock")
		w.Until(time.Minute)
		w.wantDeadlocked(nodes...)
		if w.isGone("deadlock") {
			t.Error("the rule is gone before its taints are")
		}
		refuse.Store(false)
		w.Until(2 * time.Minute)
		w.wantDeadlocked()
		if !w.isGone("deadlock") {
			t.Error("the rule is still there")
		}
	})
}

func TestAFinalizerThatAUserRemovedComesAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock")
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Finalizers = nil })
		w.Stop()
		w.Must(nil, w.rules.Delete(w.T.Context(), w.rule("deadlock")))
		w.wantDeadlocked("a-0")
		w.run()
		w.waitForPlans()
		w.wantDeadlocked()
	})
}

func TestADryRunOfARuleOnlyReports(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 4)
		w.addRule("deadlock", dryRun, atMost(intstr.FromInt32(2)))
		w.run()
		w.locks("a-0", "a-1", "a-2")
		w.waitForPlans()
		w.wantDeadlocked()
		w.wantStatus("deadlock", [4]int32{4, 3, 2, 1}, "Accepted", "MaxTainted")
		if events := w.Did("event deadlock TaintHeld 1 node waits"); len(events) != 1 {
			t.Errorf("told at %v that nodes would wait, want once", events)
		}
		w.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Spec.DryRun = false })
		w.wantDeadlocked("a-0", "a-1")
		w.changeRule(dryRun)
		w.wantDeadlocked()
		w.wantStatus("deadlock", [4]int32{4, 3, 2, 1}, "Accepted", "MaxTainted")
	})
}

func TestAProcessInADryRunWritesNothingAboutRules(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 4)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.run(func(c *Config) { c.DryRun = true })
		w.locks("a-0", "a-1")
		w.Until(time.Minute)
		if calls := append(w.Did("patch"), w.Did("event deadlock")...); len(calls) != 0 || w.writes.Load() != 0 {
			t.Errorf("calls at %v and %d writes of rules", calls, w.writes.Load())
		}
		w.wantMetric("tainted", 1)
		w.wantMetric("held", 1)
	})
}

func TestARestartChangesNothingAboutRules(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 6)
		w.addRule("deadlock", comesAfter(30*time.Second), goesAfter(time.Minute), atMost(intstr.FromInt32(3)))
		w.run()
		w.locks("a-0", "a-1", "a-2", "a-3")
		w.Until(40 * time.Second)
		w.wantDeadlocked("a-0", "a-1", "a-2")
		w.unlocks("a-0") // goes at 1:40
		w.locks("a-4")
		w.Until(70 * time.Second)
		w.Stop()
		patches, writes, events := len(w.Did("patch nodes")), w.writes.Load(), len(w.Did("event deadlock"))
		w.run()
		w.Until(99 * time.Second)
		if now := len(w.Did("patch nodes")); now != patches || w.writes.Load() != writes || len(w.Did("event deadlock")) != events {
			t.Errorf("%d patches of nodes, %d writes of the rule and %d events after the restart, want none", now-patches, w.writes.Load()-writes, len(w.Did("event deadlock"))-events)
		}
		w.Until(102 * time.Second)
		w.wantDeadlocked("a-1", "a-2", "a-3")
	})
}

func TestRulesNeverTouchATaintOfOthersNorTakeItOver(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.AddNode("n", "a", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "example.com/deadlock", Value: "mine", Effect: corev1.TaintEffectNoSchedule}}
		})
		w.AddNode("same", "a", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "example.com/deadlock", Effect: corev1.TaintEffectNoSchedule}}
		})
		w.addZone("a", 2)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.run()
		w.locks("n", "same")
		w.waitForPlans()
		w.locks("a-0")
		w.waitForPlans()
		w.WantTaints("a-0", deadlocked) // those of others count for nothing
		w.wantStatus("deadlock", [4]int32{4, 3, 1, 0}, "Accepted", "NoNodeHeld")
		w.unlocks("n", "same", "a-0")
		w.waitForPlans()
		w.WantTaints("n", "example.com/deadlock=mine:NoSchedule")
		w.WantTaints("same", deadlocked)
		w.WantTaints("a-0")
		for _, name := range []string{"n", "same"} {
			if patches := w.Did("patch nodes " + name + "/"); len(patches) != 0 {
				t.Errorf("%s was patched at %v", name, patches)
			}
		}
	})
}

func TestARulesTaintThatIsRemovedComesAgainAndOneThatIsOverwrittenIsForeign(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 2)
		w.addRule("deadlock")
		w.run()
		w.locks("a-0", "a-1")
		w.waitForPlans()
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Taints = nil })
		w.ChangeNode("a-1", func(n *corev1.Node) { n.Spec.Taints[0].Value = "theirs" })
		w.waitForPlans()
		w.WantTaints("a-0", deadlocked)
		w.WantTaints("a-1", "example.com/deadlock=theirs:NoSchedule")
		w.deleteRule("deadlock")
		w.WantTaints("a-0")
		w.WantTaints("a-1", "example.com/deadlock=theirs:NoSchedule")
		if !w.isGone("deadlock") {
			t.Error("the rule is still there")
		}
	})
}

func TestAConflictAboutARulesTaintIsTriedAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		var tries atomic.Int32
		w.onPatch(func() error {
			if tries.Add(1) < 10 {
				return apierrors.NewConflict(corev1.Resource("nodes"), "a-0", errors.New("changed"))
			}
			return nil
		})
		w.addRule("deadlock")
		w.run()
		w.locks("a-0")
		w.Until(5 * time.Minute)
		w.wantDeadlocked("a-0")
	})
}

func TestATaintThatCouldNotBeWrittenInTimeDoesNotComeAnyMore(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		var refuse atomic.Bool
		refuse.Store(true)
		w.onPatch(func() error {
			if refuse.Load() {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.addRule("deadlock", goesAfter(time.Hour))
		w.run()
		w.locks("a-0")
		w.Until(20 * time.Second)
		w.unlocks("a-0")
		refuse.Store(false)
		w.Until(5 * time.Minute)
		w.wantDeadlocked()
		w.wantStatus("deadlock", [4]int32{3, 0, 0, 0}, "Accepted", "NoNodeHeld")
	})
}

func TestWithoutTheResourceThereAreNoRulesUntilItIsInstalled(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.missing.Store(true)
		w.addZone("a", 5)
		w.AddNode("n", "b", func(n *corev1.Node) {
			n.Labels[v1alpha1.TaintedLabelPrefix+"other"] = fingerprint(deadlocked)
			fromOthers(n)
		})
		synctest.Wait()
		w.run()
		w.locks("a-1")
		w.Until(10 * time.Minute)
		w.wantDeadlocked("n") // the API server does not say yet that the rule is gone
		w.addRule("deadlock")
		w.missing.Store(false)
		w.Until(11 * time.Minute)
		w.wantDeadlocked("a-1", "n") // nor whether that is so because this process came late
		w.addRule("other")
		w.Until(12 * time.Minute)
		w.deleteRule("other")
		w.Until(13 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}

func TestWithoutTheResourceItSaysSoOnceAndAsksOnceASecond(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.missing.Store(true)
		w.addZone("a", 5)
		var lines []string
		w.run(func(c *Config) {
			c.Logger = funcr.New(func(_, line string) {
				if strings.Contains(line, "The resource NodeTaintRule") {
					lines = append(lines, line)
				}
			}, funcr.Options{})
		})
		w.locks("a-1")
		w.Until(time.Hour)
		if asked := w.asked.Load(); asked > 3601 {
			t.Errorf("it asked %d times in an hour", asked)
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "config/crd.yaml") {
			t.Errorf("it says %q, want one line about the resource", lines)
		}
		if writes := w.writes.Load(); writes > 0 {
			t.Errorf("it wrote %d times", writes)
		}
	})
}

func TestRulesThatMayNotBeReadAreFollowedOnceTheyMay(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.missing.Store(true)
		w.addZone("a", 5)
		w.addRule("deadlock")
		w.run()
		w.locks("a-1")
		w.Until(10 * time.Minute)
		w.secret.Store(true)
		w.missing.Store(false)
		w.Until(20 * time.Minute)
		w.wantDeadlocked()
		w.secret.Store(false)
		w.Until(21 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}

func TestWithoutAWorkingWatchOfRulesNoNodeIsTainted(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.addRule("deadlock")
		w.run()
		w.locks("a-0", "a-1")
		w.waitForPlans()
		w.wantDeadlocked("a-0", "a-1")
		w.secret.Store(true)
		w.Until(10 * time.Minute) // the watch, which brings nothing, is opened again
		w.locks("a-2")
		w.unlocks("a-1")
		w.Until(20 * time.Minute)
		w.wantDeadlocked("a-0")
		w.secret.Store(false)
		w.Until(21 * time.Minute)
		w.wantDeadlocked("a-0", "a-2")
	})
}

func TestMaxTaintedHoldsWhenTheLabelIsRemoved(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.run()
		w.locks("a-0", "a-1")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.ChangeNode("a-0", func(n *corev1.Node) { delete(n.Labels, v1alpha1.TaintedLabelPrefix+"deadlock") })
		w.waitForPlans()
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.unlocks("a-0", "a-1")
		w.waitForPlans()
		w.waitForPlans()
		w.wantDeadlocked()
	})
}

func TestAnOlderRuleThatIsInvalidDoesNotStopAYoungerOne(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("old", func(r *v1alpha1.NodeTaintRule) {
			r.Spec.NodeSelector = &v1alpha1.Selector{MatchExpressions: []v1alpha1.SelectorRequirement{{Key: "x", Operator: "Sometimes"}}}
		})
		w.Pass(time.Second)
		w.addRule("young")
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
	})
}

// NodeRestriction keeps kubelets from taints and from such labels, and from nothing else of their nodes' metadata that
// matters here: see test/integration.
func TestNothingThatAKubeletMayWriteTakesATaintOff(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock")
		w.run()
		w.unlocks("a-0")
		w.ChangeNode("a-0", fromOthers) // the taint of an administrator who examines the node
		w.waitForPlans()
		w.ChangeNode("a-0", func(n *corev1.Node) {
			n.Annotations = map[string]string{
				"taintkeeper.dev/node-taint-rules":       `{"deadlock":"example.com/deadlock:NoSchedule"}`,
				v1alpha1.TaintedLabelPrefix + "deadlock": fingerprint(deadlocked),
			}
			n.Labels["taintkeeper.dev/deadlock"] = fingerprint(deadlocked)
		})
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.locks("a-0")
		w.waitForPlans()
		w.unlocks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
	})
}

func TestALabelCannotTakeOffATaintThatNoRuleHas(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.AddNode("n", "a", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "secure", Effect: corev1.TaintEffectNoSchedule}}
			n.Labels[v1alpha1.TaintedLabelPrefix+"ghost"] = fingerprint("dedicated=secure:NoSchedule")
			n.Labels[v1alpha1.TaintedLabelPrefix+"deadlock"] = fingerprint("dedicated=secure:NoSchedule")
		})
		w.addRule("deadlock")
		w.run()
		w.waitForPlans()
		w.WantTaints("n", "dedicated=secure:NoSchedule")
	})
}

func TestAReporterThatRefreshesItsTransitionTimeKeepsNoRuleFromTainting(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 2)
		w.addRule("deadlock", comesAfter(time.Minute))
		w.run()
		for range 3 {
			w.locks("a-0") // True, and never anything else
			w.Pass(25 * time.Second)
		}
		w.wantDeadlocked("a-0")
	})
}

func TestANodeWhoseClockIsSlowIsNotTaintedAndUntaintedWhileItsConditionFlaps(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 2)
		w.addRule("deadlock", comesAfter(time.Minute), goesAfter(time.Minute))
		w.run()
		for i := range 20 {
			status := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[i%2]
			w.ReportSince("a-0", deadlock, status, time.Now().Add(-10*time.Minute))
			w.Pass(5 * time.Second)
		}
		if patches := w.Did("patch nodes a-0/"); len(patches) != 0 {
			t.Errorf("patches at %v, want none", patches)
		}
	})
}

func TestATakeOverBetweenTwoRulesWithOneTaintChangesOnlyTheOwner(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("older")
		w.Pass(time.Second)
		w.addRule("younger")
		w.run()
		w.locks("a-0", "a-1")
		w.waitForPlans()
		w.unlocks("a-2")
		before := w.Node("a-0")
		w.Pass(5 * time.Second)
		stream, err := w.Client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
		w.Must(nil, err)
		t.Cleanup(stream.Stop)
		var seen, changed atomic.Int32
		go func() {
			for event := range stream.ResultChan() {
				if node := event.Object.(*corev1.Node); node.Name == before.Name && event.Type == watch.Modified {
					seen.Add(1)
					if !apiequality.Semantic.DeepEqual(node.Spec.Taints, before.Spec.Taints) {
						changed.Add(1)
					}
				}
			}
		}()
		w.deleteRule("older")
		w.waitForPlans()
		w.wantDeadlocked("a-0", "a-1")
		if seen.Load() != 1 || changed.Load() != 0 {
			t.Errorf("the node changed %d times, and %d times it had other taints, want one change of the owner", seen.Load(), changed.Load())
		}
		if !w.isGone("older") {
			t.Error("the deleted rule is still there")
		}
		w.unlocks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-1")
		w.wantStatus("younger", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
	})
}

// The older rule had tainted more nodes than the younger may, on nodes that the younger does not select, too.
func TestARuleContinuesADeletedOneAsIfThatHadBeenEdited(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 4)
		w.addZone("b", 1)
		w.addRule("older", goesAfter(time.Hour))
		w.Pass(time.Second)
		w.addRule("younger", atMost(intstr.FromInt32(2)), goesAfter(time.Minute), func(r *v1alpha1.NodeTaintRule) {
			r.Spec.NodeSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelTopologyZone: "a"}}
		})
		w.run()
		w.locks("a-0", "a-1", "a-2", "b-0")
		w.waitForPlans()
		w.deleteRule("older")
		w.locks("a-3")
		w.unlocks("a-2")
		w.Pass(50 * time.Second)
		w.wantDeadlocked("a-0", "a-1", "a-2")
		w.wantStatus("younger", [4]int32{4, 3, 3, 1}, "Accepted", "MaxTainted")
		if patches := w.Did("patch nodes a-0/"); len(patches) != 2 {
			t.Errorf("a-0 was patched at %v, want once for the taint and once for the label", patches)
		}
		if !w.isGone("older") {
			t.Error("the deleted rule is still there")
		}
		w.Pass(20 * time.Second)
		w.wantDeadlocked("a-0", "a-1")
		w.deleteRule("younger")
		w.wantDeadlocked()
	})
}

// The finalizer of the younger one cannot be written for now.
func TestATakeOverWaitsForARuleThatCannotTaintYet(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("older")
		w.Pass(time.Second)
		w.addRule("younger")
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.unwritable.Store(true)
		w.deleteRule("older")
		w.Pass(time.Minute)
		w.wantDeadlocked("a-0")
		w.unwritable.Store(false)
		w.Pass(time.Minute)
		w.wantDeadlocked("a-0")
		if !w.isGone("older") {
			t.Error("the deleted rule is still there")
		}
	})
}

// A standby whose watch lags takes over, which takes two seconds during a rolling update.
func TestMaxTaintedHoldsWhenTheNextLeaderIsBehind(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 6)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		late := w.API.Watches("nodes")
		lead := w.standBy()
		w.run()
		w.locks(nodes[:4]...)
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.Pass(8 * time.Second)
		late.HoldFirst()
		w.unlocks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-1")
		w.Stop()
		lead()
		w.waitForPlans()
		w.wantDeadlocked("a-1")
		late.Release()
		w.waitForPlans()
		w.wantDeadlocked("a-1")
	})
}

func TestARuleIsNotLetGoWhileANodeHasItsTaintThatTheWatchHasNotBrought(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock")
		late := w.API.Watches("nodes")
		lead := w.standBy()
		w.run()
		late.HoldFirst()
		w.locks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.Stop()
		w.deleteRule("deadlock")
		lead()
		w.Pass(10 * time.Second)
		w.wantDeadlocked()
		if !w.isGone("deadlock") {
			t.Error("the deleted rule is still there")
		}
	})
}

// Others write the node faster than the watch brings it.
func TestANodeThatIsAlwaysNewerThanTheWatchIsTainted(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		late := w.API.Watches("nodes")
		w.addRule("deadlock")
		w.run()
		w.locks("a-0")
		late.Hold()
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Labels["somebody"] = "else" })
		w.Pass(5 * time.Second)
		w.wantDeadlocked("a-0")
	})
}

func TestOfSeveralRulesTaintsTheOneThatIsRefusedKeepsNoOtherOff(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 2)
		w.refusesTaint("example.com/refused")
		w.addRule("deadlock")
		w.addRule("refused", func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Key = "example.com/refused" })
		w.run()
		w.locks("a-0")
		w.Until(10 * time.Second)
		w.WantTaints("a-0", deadlocked)
		w.wantStatus("refused", [4]int32{2, 1, 0, 1}, "Accepted", "Refused")
	})
}

func TestEachFailedTryToTaintANodeIsAReconcileError(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		var failed atomic.Int32
		w.onPatch(func() error {
			if failed.Load() == 5 {
				return nil
			}
			failed.Add(1)
			return apierrors.NewInternalError(errors.New("not now"))
		})
		w.addRule("deadlock")
		before := bubble.ReconcileErrors(t, "node-taint-rule")
		w.run()
		w.locks("a-0")
		w.Until(time.Minute)
		w.wantDeadlocked("a-0")
		if got := bubble.ReconcileErrors(t, "node-taint-rule") - before; got != 5 {
			t.Errorf("controller-runtime counts %v errors, want 5", got)
		}
	})
}

func TestANodeWhoseTaintIsRefusedDoesNotKeepTheOthersFromTheirs(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.refuses("a-0", "")
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.run()
		w.locks("a-0", "a-1")
		w.Until(10 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}

func TestARefusedNodeThatLostItsTaintIsNotTriedWithoutPause(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 5)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		tries := w.refusesTaint("example.com/deadlock")
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Taints = nil })
		w.Until(10 * time.Minute)
		if n := tries.Load(); n == 0 || n > 20 {
			t.Errorf("%d tries within ten minutes to write a taint that is refused, want about one a minute", n)
		}
		w.locks("a-1")
		w.Until(15 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}

// A write of which the answer was lost was not done, and no change of the node will say so.
func TestAPlaceBelowMaxTaintedIsFreeWhenAWriteWasNotDone(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.ChangeNode("a-1", func(n *corev1.Node) { n.Labels["pool"] = "one" })
		var away atomic.Bool
		away.Store(true)
		w.onPatch(func() error {
			if away.Load() {
				return context.DeadlineExceeded
			}
			return nil
		})
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.locks("a-0", "a-1") // a-0 comes first
		w.run()
		w.changeRule(func(r *v1alpha1.NodeTaintRule) {
			r.Spec.NodeSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "one"}}
		})
		w.waitForPlans()
		away.Store(false)
		w.Until(time.Minute)
		w.wantDeadlocked("a-1")
	})
}

// A write of which the answer was lost is done, and the watch is too late to say so.
func TestMaxTaintedHoldsWhenTheAnswerToAWriteIsLost(t *testing.T) {
	t.Run("and the node can be read", func(t *testing.T) { playLostAnswer(t, false) })
	t.Run("and the node cannot be read either", func(t *testing.T) { playLostAnswer(t, true) })
}

func playLostAnswer(t *testing.T, unreadable bool) {
	t.Helper()
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.ChangeNode("a-1", func(n *corev1.Node) { n.Labels["pool"] = "one" })
		late := w.API.Watches("nodes")
		var lose atomic.Bool
		w.wrote = func(context.Context) error {
			if !lose.Swap(false) {
				return nil
			}
			late.Hold()
			return context.DeadlineExceeded
		}
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		lose.Store(true)
		w.locks("a-0", "a-1") // a-0 comes first; both are known before the watch is late
		var away atomic.Bool
		away.Store(unreadable)
		w.Client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, apierrors.NewInternalError(errors.New("etcdserver: no leader"))
		})
		w.run()
		w.waitForPlans()
		w.changeRule(func(r *v1alpha1.NodeTaintRule) {
			r.Spec.NodeSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "one"}}
		})
		for range 120 {
			w.Pass(500 * time.Millisecond)
			if got := w.deadlocked(); len(got) > 1 {
				t.Fatalf("after %s the nodes %q have the taint, want 1 at most", time.Since(w.Start), got)
			}
		}
		away.Store(false)
		late.Release()
		w.Until(2 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}
