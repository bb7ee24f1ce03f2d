// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

const (
	deadlock     = corev1.NodeConditionType("KernelDeadlock")
	deadlocked   = "example.com/deadlock:NoSchedule"
	planningTime = togetherWithin + time.Millisecond
)

// ruleWorld is a world with rules.
type ruleWorld struct {
	*world

	rules   client.WithWatch
	writes  atomic.Int32 // of rules
	missing atomic.Bool  // the resource is not installed
}

// plainLister tells client-go that the fake client cannot send a list through a watch.
type plainLister struct{ client.WithWatch }

func (plainLister) IsWatchListSemanticsUnSupported() bool { return true }

func playRules(t *testing.T, test func(t *testing.T, w *ruleWorld)) {
	t.Helper()
	play(t, func(t *testing.T, plain *world) {
		w := &ruleWorld{world: plain}
		scheme, err := v1alpha1.NewScheme()
		w.must(nil, err)
		var begun watch.Interface // with a list, so that nothing is lost before the watch
		w.rules = plainLister{fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeTaintRule{}).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if w.missing.Load() {
					return &meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("NodeTaintRule").GroupKind()}
				}
				if isReflectors(options) {
					var err error
					if begun, err = c.Watch(ctx, list, options...); err != nil {
						return err
					}
				}
				return c.List(ctx, list, options...)
			},
			Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
				if stream := begun; stream != nil {
					begun = nil
					return stream, nil
				}
				return c.Watch(ctx, list, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				w.writes.Add(1)
				return c.Patch(ctx, object, patch, options...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				w.writes.Add(1)
				return c.SubResource(sub).Patch(ctx, object, patch, options...)
			},
		}).Build()}
		test(t, w)
	})
}

// isReflectors reports whether a list is a reflector's, which says how old it may be.
func isReflectors(options []client.ListOption) bool {
	var all client.ListOptions
	all.ApplyOptions(options)
	return all.Raw != nil && all.Raw.ResourceVersion != ""
}

// run starts a Keeper that follows the rules.
func (w *ruleWorld) run(change ...func(*Config)) {
	w.t.Helper()
	w.world.run(append([]func(*Config){func(c *Config) { c.Rules = w.rules }}, change...)...)
	w.sleep(planningTime)
}

// addRule creates a rule for KernelDeadlock True.
func (w *ruleWorld) addRule(name string, change ...func(*v1alpha1.NodeTaintRule)) {
	w.t.Helper()
	rule := &v1alpha1.NodeTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint("uid-of-", name, time.Now().UnixNano())), CreationTimestamp: metav1.Now(), Generation: 1},
		Spec: v1alpha1.NodeTaintRuleSpec{
			Condition: v1alpha1.NodeTaintRuleCondition{Type: deadlock, Status: corev1.ConditionTrue},
			Taint:     v1alpha1.NodeTaintRuleTaint{Key: "example.com/deadlock", Effect: corev1.TaintEffectNoSchedule},
		},
	}
	for _, apply := range change {
		apply(rule)
	}
	w.must(nil, w.rules.Create(w.t.Context(), rule))
	w.settle()
}

// settle lets what was begun come to its end.
func (w *ruleWorld) settle() {
	for range 3 {
		w.sleep(planningTime)
	}
}

func (w *ruleWorld) rule(name string) *v1alpha1.NodeTaintRule {
	w.t.Helper()
	rule := &v1alpha1.NodeTaintRule{}
	w.must(nil, w.rules.Get(w.t.Context(), client.ObjectKey{Name: name}, rule))
	return rule
}

func (w *ruleWorld) changeRule(change func(*v1alpha1.NodeTaintRule)) {
	w.t.Helper()
	rule := w.rule("deadlock")
	change(rule)
	rule.Generation++
	w.must(nil, w.rules.Update(w.t.Context(), rule))
	w.settle()
}

func (w *ruleWorld) deleteRule(name string) {
	w.t.Helper()
	w.must(nil, w.rules.Delete(w.t.Context(), w.rule(name)))
	w.settle()
}

func (w *ruleWorld) isGone(name string) bool {
	return apierrors.IsNotFound(w.rules.Get(w.t.Context(), client.ObjectKey{Name: name}, &v1alpha1.NodeTaintRule{}))
}

// locks makes nodes report KernelDeadlock True, unlocks False.
func (w *ruleWorld) locks(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.report(name, deadlock, corev1.ConditionTrue)
	}
}

func (w *ruleWorld) unlocks(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.report(name, deadlock, corev1.ConditionFalse)
	}
}

// deadlocked returns which nodes have a taint of the rules here.
func (w *ruleWorld) deadlocked() []string {
	w.t.Helper()
	nodes, err := w.client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(nil, err)
	var names []string
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/deadlock" }) {
			names = append(names, node.Name)
		}
	}
	return names
}

func (w *ruleWorld) wantDeadlocked(want ...string) {
	w.t.Helper()
	if got := w.deadlocked(); !slices.Equal(got, want) {
		w.t.Errorf("after %s the nodes %q have the rule's taint, want %q", time.Since(w.start), got, want)
	}
}

// wantStatus wants selected, matching, tainted and held, and the reasons of the conditions.
func (w *ruleWorld) wantStatus(name string, counts [4]int32, reasons ...string) {
	w.t.Helper()
	rule := w.rule(name)
	if got := [4]int32{rule.Status.Selected, rule.Status.Matching, rule.Status.Tainted, rule.Status.Held}; got != counts {
		w.t.Errorf("after %s rule %s counts %v (selected, matching, tainted, held), want %v", time.Since(w.start), name, got, counts)
	}
	var got []string
	for _, c := range rule.Status.Conditions {
		got = append(got, c.Reason)
	}
	if !slices.Equal(got, reasons) {
		w.t.Errorf("after %s rule %s has conditions with reasons %q, want %q: %v", time.Since(w.start), name, got, reasons, rule.Status.Conditions)
	}
	if rule.Status.ObservedGeneration != rule.Generation {
		w.t.Errorf("the status of rule %s is about generation %d, not %d", name, rule.Status.ObservedGeneration, rule.Generation)
	}
}

func atMost(bound intstr.IntOrString) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) { r.Spec.MaxTainted = &bound }
}

func comesAfter(d time.Duration) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) { r.Spec.After.Duration = d }
}

func goesAfter(d time.Duration) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) { r.Spec.ClearAfter.Duration = d }
}

func dryRun(r *v1alpha1.NodeTaintRule) { r.Spec.DryRun = true }

func TestARulesTaintComesWhenTheConditionHasHeldForLongEnough(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addZone("a", 3)
		w.addRule("deadlock", comesAfter(time.Minute))
		w.run()
		w.until(5 * time.Second)
		w.locks("a-0")
		w.until(64 * time.Second)
		w.wantTaints("a-0")
		w.settle()
		w.wantStatus("deadlock", [4]int32{3, 1, 0, 0}, "Accepted", "NoNodeHeld")
		w.until(66 * time.Second)
		w.wantTaints("a-0", deadlocked)
		if added := w.node("a-0").Spec.Taints[0].TimeAdded; added == nil || time.Since(added.Time) > 2*time.Second {
			t.Errorf("it was added at %v, want now", added)
		}
		if patches := w.did("patch nodes a-0/"); len(patches) != 1 {
			t.Errorf("patches at %v, want one of the taint and of what says whose it is", patches)
		}
		w.settle()
		w.wantStatus("deadlock", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
		w.wantMetric("taintkeeper_rule_nodes", map[string]string{"rule": "deadlock", "state": "tainted"}, 1)
		w.wantDeadlocked("a-0")
	})
}

func TestAConditionThatFlapsNeverTaints(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addZone("a", 3)
		w.addRule("deadlock", comesAfter(30*time.Second))
		w.run()
		for i := range 20 {
			w.locks("a-0")
			w.until(time.Duration(i+1) * 25 * time.Second)
			w.unlocks("a-0")
		}
		if patches := w.did("patch nodes a-0/"); len(patches) != 0 {
			t.Errorf("patches at %v, want none", patches)
		}
	})
}

func TestARulesTaintGoesWhenTheConditionHasBeenOverForLongEnough(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addZone("a", 3)
		w.addRule("deadlock", goesAfter(time.Minute))
		w.run()
		w.locks("a-0", "a-1", "a-2")
		w.settle()
		w.wantDeadlocked("a-0", "a-1", "a-2")
		w.until(10 * time.Second)
		w.unlocks("a-0", "a-1")
		w.update("a-2", func(n *corev1.Node) { // the condition vanishes
			n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == deadlock })
		})
		w.until(60 * time.Second)
		w.locks("a-1") // again: it never was over for long enough
		w.until(69 * time.Second)
		w.wantDeadlocked("a-0", "a-1", "a-2")
		w.until(72 * time.Second)
		w.wantDeadlocked("a-1")
		if text, ok := w.node("a-0").Annotations[v1alpha1.OwnedAnnotation]; ok {
			t.Errorf("node a-0 still says that it has taints of rules: %s", text)
		}
		w.until(5 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}

func TestAConditionOfTheFutureCountsFromWhenItWasSeen(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		w.addZone("a", 2)
		w.addRule("deadlock", comesAfter(30*time.Second))
		w.run()
		w.update("a-0", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: deadlock, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(20 * time.Second))})
		})
		w.update("a-1", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: deadlock, Status: corev1.ConditionTrue})
		})
		w.until(29 * time.Second)
		w.wantDeadlocked()
		w.until(32 * time.Second)
		w.wantDeadlocked("a-0", "a-1")
	})
}

func TestANodeThatIsNoLongerSelectedLosesTheTaintAtOnce(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		w.addZone("a", 2)
		w.addZone("b", 2)
		selects := func(zone string) func(r *v1alpha1.NodeTaintRule) {
			return func(r *v1alpha1.NodeTaintRule) {
				r.Spec.NodeSelector = &v1alpha1.NodeTaintRuleSelector{MatchLabels: map[string]v1alpha1.NodeTaintRuleLabelValue{corev1.LabelTopologyZone: v1alpha1.NodeTaintRuleLabelValue(zone)}}
			}
		}
		w.addRule("deadlock", goesAfter(time.Hour), selects("a"))
		w.run()
		w.locks("a-0", "a-1", "b-0")
		w.settle()
		w.wantDeadlocked("a-0", "a-1")
		w.wantStatus("deadlock", [4]int32{2, 2, 2, 0}, "Accepted", "NoNodeHeld")
		w.update("a-1", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "b" })
		w.settle()
		w.wantDeadlocked("a-0")
		w.changeRule(selects("b"))
		w.wantDeadlocked("a-1", "b-0")
		w.wantStatus("deadlock", [4]int32{3, 2, 2, 0}, "Accepted", "NoNodeHeld")
	})
}

func TestBeyondMaxTaintedNodesWaitAndAreReleasedInTheOrderOfTheirConditions(t *testing.T) {
	for name, bound := range map[string]intstr.IntOrString{"as a number": intstr.FromInt32(2), "as a percentage, rounded down": intstr.FromString("29%")} {
		t.Run(name, func(t *testing.T) {
			playRules(t, func(t *testing.T, w *ruleWorld) {
				w.addZone("a", 10)
				w.addRule("deadlock", atMost(bound))
				w.run()
				for i, name := range []string{"a-7", "a-3", "a-9", "a-1", "a-0"} {
					w.until(time.Duration(i+1) * 10 * time.Second)
					w.locks(name)
				}
				w.settle()
				w.wantDeadlocked("a-3", "a-7")
				w.wantStatus("deadlock", [4]int32{10, 5, 2, 3}, "Accepted", "MaxTainted")
				w.wantMetric("taintkeeper_rule_nodes", map[string]string{"rule": "deadlock", "state": "held"}, 3)
				if events := w.did("event deadlock TaintHeld 1 node waits for taint " + deadlocked); len(events) != 1 {
					t.Errorf("told at %v that nodes wait, want once", events)
				}
				w.unlocks("a-7")
				w.settle()
				w.settle()
				w.wantDeadlocked("a-3", "a-9")
				w.unlocks("a-3", "a-1")
				w.settle()
				w.settle()
				w.wantDeadlocked("a-0", "a-9")
				w.wantStatus("deadlock", [4]int32{10, 2, 2, 0}, "Accepted", "NoNodeHeld")
				if events := w.did("event deadlock TaintNoLongerHeld"); len(events) != 1 {
					t.Errorf("told at %v that no node waits any more, want once", events)
				}
			})
		})
	}
}

func TestNeverMoreThanMaxTaintedHaveTheTaintHoweverTheWritesGo(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		nodes := w.addZone("a", 8)
		var calls atomic.Int32
		w.on("nodes", "", func() error {
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
			w.sleep(time.Duration(i%5) * 130 * time.Millisecond)
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
		"to some":     {intstr.FromInt32(2), 8, []string{"a-6", "a-7"}, [4]int32{8, 8, 2, 6}, "MaxTainted"},
		"to a share":  {intstr.FromString("40%"), 8, []string{"a-5", "a-6", "a-7"}, [4]int32{8, 8, 3, 5}, "MaxTainted"},
		"to too many": {intstr.FromInt32(9), 0, []string{"a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7"}, [4]int32{8, 8, 8, 0}, "NoNodeHeld"},
	} {
		t.Run(name, func(t *testing.T) {
			playRules(t, func(t *testing.T, w *ruleWorld) {
				nodes := w.addZone("a", 8)
				w.addRule("deadlock")
				w.run()
				var away atomic.Bool
				away.Store(true)
				w.on("nodes", "", func() error {
					if away.Load() {
						return apierrors.NewInternalError(errors.New("failed calling webhook"))
					}
					return nil
				})
				for _, node := range slices.Backward(nodes) {
					w.locks(node)
					w.sleep(2 * time.Second)
				}
				most := w.mostDeadlocked()
				w.changeRule(atMost(test.bound))
				w.until(time.Minute)
				w.wantStatus("deadlock", [4]int32{8, 8, 0, test.meanwhile}, "Accepted", test.reason)
				away.Store(false)
				w.until(3 * time.Minute)
				w.wantDeadlocked(test.want...)
				w.wantStatus("deadlock", test.counts, "Accepted", test.reason)
				if got := int(most()); got != len(test.want) {
					t.Errorf("up to %d nodes were tainted at once, want %d", got, len(test.want))
				}
				if events := w.did("event deadlock TaintNoLongerHeld"); len(events) != 0 {
					t.Errorf("told at %v that no node waits any more", events)
				}
			})
		})
	}
}

func TestALoweredMaxTaintedTakesNoTaintOff(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		nodes := w.addZone("a", 4)
		w.addRule("deadlock")
		w.run()
		w.locks(nodes[:3]...)
		w.settle()
		w.changeRule(atMost(intstr.FromInt32(1)))
		w.locks(nodes[3])
		w.settle()
		w.wantDeadlocked(nodes[:3]...)
		w.wantStatus("deadlock", [4]int32{4, 4, 3, 1}, "Accepted", "MaxTainted")
	})
}

// mostDeadlocked watches how many nodes have the taint at once, and returns what tells the most so far.
func (w *ruleWorld) mostDeadlocked() func() int32 {
	w.t.Helper()
	stream, err := w.client.CoreV1().Nodes().Watch(w.t.Context(), metav1.ListOptions{})
	w.must(nil, err)
	w.t.Cleanup(stream.Stop)
	var most atomic.Int32
	go func() {
		tainted := map[string]bool{}
		for event := range stream.ResultChan() {
			node := event.Object.(*corev1.Node)
			delete(tainted, node.Name)
			if ownedBy(node) != nil {
				tainted[node.Name] = true
			}
			most.Store(max(most.Load(), int32(len(tainted))))
		}
	}()
	return most.Load
}

func TestOfTwoRulesWithOneTaintTheOlderWinsAndTheOtherTakesOverWhenItGoes(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addZone("a", 3)
		w.addRule("z-first")
		w.until(5 * time.Second)
		w.addRule("a-second", func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Value = "second" })
		w.run()
		w.locks("a-0")
		w.settle()
		w.wantTaints("a-0", deadlocked)
		w.wantStatus("a-second", [4]int32{}, "TaintConflict", "NoNodeHeld")
		if message := w.rule("a-second").Status.Conditions[0].Message; !strings.Contains(message, "z-first") {
			t.Errorf("%q does not name the other rule", message)
		}
		w.deleteRule("z-first")
		w.settle()
		w.wantTaints("a-0", "example.com/deadlock=second:NoSchedule")
		w.wantStatus("a-second", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
		if !w.isGone("z-first") {
			t.Error("the deleted rule is still there")
		}
	})
}

func TestARuleMayNotOwnAKeyOfKubernetes(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		w.addZone("a", 3)
		w.addRule("taken", func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Key = "node.kubernetes.io/not-ready" })
		w.run()
		w.locks("a-0")
		w.settle()
		w.wantTaints("a-0")
		w.wantStatus("taken", [4]int32{}, "BuiltInKey", "NoNodeHeld")
	})
}

func TestADeletedRuleStaysUntilItsTaintsAreOffAllNodes(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		nodes := w.addZone("a", 5)
		w.addRule("deadlock", goesAfter(time.Hour))
		w.run()
		w.locks(nodes...)
		w.settle()
		w.wantDeadlocked(nodes...)
		if finalizers := w.rule("deadlock").Finalizers; !slices.Equal(finalizers, []string{v1alpha1.Finalizer}) {
			t.Errorf("finalizers are %q", finalizers)
		}
		var refuse atomic.Bool
		refuse.Store(true)
		w.on("nodes", "", func() error {
			if refuse.Load() {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.deleteRule("deadlock")
		w.until(time.Minute)
		w.wantDeadlocked(nodes...)
		if w.isGone("deadlock") {
			t.Error("the rule is gone before its taints are")
		}
		refuse.Store(false)
		w.until(2 * time.Minute)
		w.wantDeadlocked()
		if !w.isGone("deadlock") {
			t.Error("the rule is still there")
		}
	})
}

func TestTheTaintsOfARuleThatIsGoneGoWithOrWithoutAFinalizer(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		w.addZone("a", 3)
		w.addRule("deadlock")
		w.run()
		w.locks("a-0")
		w.settle()
		w.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Finalizers = nil })
		w.stop()
		w.must(nil, w.rules.Delete(w.t.Context(), w.rule("deadlock")))
		w.wantDeadlocked("a-0")
		w.run()
		w.settle()
		w.wantDeadlocked()
	})
}

func TestADryRunOfARuleOnlyReports(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addZone("a", 4)
		w.addRule("deadlock", dryRun, atMost(intstr.FromInt32(2)))
		w.run()
		w.locks("a-0", "a-1", "a-2")
		w.settle()
		w.wantDeadlocked()
		w.wantStatus("deadlock", [4]int32{4, 3, 2, 1}, "Accepted", "MaxTainted")
		if events := w.did("event deadlock TaintHeld 1 node waits"); len(events) != 1 {
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
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addZone("a", 4)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.run(func(c *Config) { c.DryRun = true })
		w.locks("a-0", "a-1")
		w.until(time.Minute)
		if calls := append(w.did("patch"), w.did("event deadlock")...); len(calls) != 0 || w.writes.Load() != 0 {
			t.Errorf("calls at %v and %d writes of rules", calls, w.writes.Load())
		}
		w.wantMetric("taintkeeper_rule_nodes", map[string]string{"rule": "deadlock", "state": "tainted"}, 1)
		w.wantMetric("taintkeeper_rule_nodes", map[string]string{"rule": "deadlock", "state": "held"}, 1)
	})
}

func TestARestartChangesNothingAboutRules(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addZone("a", 6)
		w.addRule("deadlock", comesAfter(30*time.Second), goesAfter(time.Minute), atMost(intstr.FromInt32(3)))
		w.run()
		w.locks("a-0", "a-1", "a-2", "a-3")
		w.until(40 * time.Second)
		w.wantDeadlocked("a-0", "a-1", "a-2")
		w.unlocks("a-0") // goes at 1:40
		w.locks("a-4")
		w.until(70 * time.Second)
		w.stop()
		patches, writes, events := len(w.did("patch nodes")), w.writes.Load(), len(w.did("event deadlock"))
		w.run()
		w.until(99 * time.Second)
		if now := len(w.did("patch nodes")); now != patches || w.writes.Load() != writes || len(w.did("event deadlock")) != events {
			t.Errorf("%d patches of nodes, %d writes of the rule and %d events after the restart, want none", now-patches, w.writes.Load()-writes, len(w.did("event deadlock"))-events)
		}
		w.until(102 * time.Second)
		w.wantDeadlocked("a-1", "a-2", "a-3")
	})
}

func TestRulesNeverTouchATaintOfOthersNorTakeItOver(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addNode("n", "a", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "example.com/deadlock", Value: "mine", Effect: corev1.TaintEffectNoSchedule}}
		})
		w.addNode("same", "a", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "example.com/deadlock", Effect: corev1.TaintEffectNoSchedule}}
		})
		w.addZone("a", 2)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.run()
		w.locks("n", "same")
		w.settle()
		w.locks("a-0")
		w.settle()
		w.wantTaints("a-0", deadlocked) // those of others count for nothing
		w.wantStatus("deadlock", [4]int32{4, 3, 1, 0}, "Accepted", "NoNodeHeld")
		w.unlocks("n", "same", "a-0")
		w.settle()
		w.wantTaints("n", "example.com/deadlock=mine:NoSchedule")
		w.wantTaints("same", deadlocked)
		w.wantTaints("a-0")
		for _, name := range []string{"n", "same"} {
			if patches := w.did("patch nodes " + name + "/"); len(patches) != 0 {
				t.Errorf("%s was patched at %v", name, patches)
			}
		}
	})
}

func TestARulesTaintThatSomebodyTakesOffComesAgainAndOneThatSomebodyOverwritesIsTheirs(t *testing.T) {
	playRules(t, func(t *testing.T, w *ruleWorld) {
		w.addZone("a", 2)
		w.addRule("deadlock")
		w.run()
		w.locks("a-0", "a-1")
		w.settle()
		w.update("a-0", func(n *corev1.Node) { n.Spec.Taints = nil })
		w.update("a-1", func(n *corev1.Node) { n.Spec.Taints[0].Value = "theirs" })
		w.settle()
		w.wantTaints("a-0", deadlocked)
		w.wantTaints("a-1", "example.com/deadlock=theirs:NoSchedule")
		w.deleteRule("deadlock")
		w.wantTaints("a-0")
		w.wantTaints("a-1", "example.com/deadlock=theirs:NoSchedule")
		if !w.isGone("deadlock") {
			t.Error("the rule is still there")
		}
	})
}

func TestRulesAndReadinessShareOnePatch(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		w.addZone("a", 5)
		w.addRule("deadlock")
		w.run()
		posts := func(locked, ready corev1.ConditionStatus) {
			w.update("a-0", func(n *corev1.Node) {
				now := metav1.Now()
				n.Status.Conditions = with(n, []corev1.NodeCondition{
					{Type: deadlock, Status: locked, LastTransitionTime: now},
					{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: now, LastTransitionTime: now},
				}).Status.Conditions
			})
		}
		posts(corev1.ConditionTrue, corev1.ConditionFalse)
		w.settle()
		w.wantTaints("a-0", deadlocked, notReadyNoExecute, notReadyNoSchedule)
		posts(corev1.ConditionFalse, corev1.ConditionTrue)
		w.settle()
		w.wantTaints("a-0")
	})
}

func TestAConflictAboutARulesTaintIsTriedAgain(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		w.addZone("a", 3)
		var tries atomic.Int32
		w.on("nodes", "", func() error {
			if tries.Add(1) < 10 {
				return apierrors.NewConflict(corev1.Resource("nodes"), "a-0", errors.New("changed"))
			}
			return nil
		})
		w.addRule("deadlock")
		w.run()
		w.locks("a-0")
		w.until(5 * time.Minute)
		w.wantDeadlocked("a-0")
	})
}

func TestATaintThatCouldNotBeWrittenInTimeDoesNotComeAnyMore(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		w.addZone("a", 3)
		var refuse atomic.Bool
		refuse.Store(true)
		w.on("nodes", "", func() error {
			if refuse.Load() {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.addRule("deadlock", goesAfter(time.Hour))
		w.run()
		w.locks("a-0")
		w.until(20 * time.Second)
		w.unlocks("a-0")
		refuse.Store(false)
		w.until(5 * time.Minute)
		w.wantDeadlocked()
		w.wantStatus("deadlock", [4]int32{3, 0, 0, 0}, "Accepted", "NoNodeHeld")
	})
}

func TestWithoutTheResourceThereAreNoRulesUntilItIsInstalled(t *testing.T) {
	playRules(t, func(_ *testing.T, w *ruleWorld) {
		w.missing.Store(true)
		w.addZone("a", 5)
		w.addNode("n", "b", func(n *corev1.Node) {
			n.Annotations = map[string]string{v1alpha1.OwnedAnnotation: `{"deadlock":"` + deadlocked + `"}`}
			n.Spec.Taints = []corev1.Taint{{Key: "example.com/deadlock", Effect: corev1.TaintEffectNoSchedule}}
		})
		synctest.Wait()
		w.run()
		w.report("a-0", corev1.NodeDiskPressure, corev1.ConditionTrue)
		w.wantTaints("a-0", "disk-pressure:NoSchedule") // all else works
		w.locks("a-1")
		w.until(10 * time.Minute)
		w.wantDeadlocked("n") // nobody knows that there is no such rule
		w.addRule("deadlock")
		w.missing.Store(false)
		w.until(11 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}
