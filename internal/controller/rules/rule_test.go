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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestARule(t *testing.T) {
	stories := map[string]func(w *world){
		"its taint comes when the condition has held for long enough": func(w *world) {
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
				w.T.Errorf("it was added at %v, want now", added)
			}
			if patches := w.Did("patch nodes a-0/"); len(patches) != 1 {
				w.T.Errorf("patches at %v, want one of the taint and of what says whose it is", patches)
			}
			w.waitForPlans()
			w.wantStatus("deadlock", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
			w.wantMetric("tainted", 1)
			w.wantDeadlocked("a-0")
		},
		// This machine's clock is behind. The next leader's may be right: pods would then leave too early because of a
		// timeAdded that is too early.
		"timeAdded is the API server's time": func(w *world) {
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
				w.T.Errorf("timeAdded is %s before the API server's clock", early)
			}
		},
		"a node that is no longer selected loses the taint at once": func(w *world) {
			w.addZone("a", 2)
			w.addZone("b", 2)
			w.addRule("deadlock", goesAfter(time.Hour), inZone("a"))
			w.run()
			w.locks("a-0", "a-1", "b-0")
			w.waitForPlans()
			w.wantDeadlocked("a-0", "a-1")
			w.wantStatus("deadlock", [4]int32{2, 2, 2, 0}, "Accepted", "NoNodeHeld")
			w.ChangeNode("a-1", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "b" })
			w.waitForPlans()
			w.wantDeadlocked("a-0")
			w.changeRule(inZone("b"))
			w.wantDeadlocked("a-1", "b-0")
			w.wantStatus("deadlock", [4]int32{3, 2, 2, 0}, "Accepted", "NoNodeHeld")
		},
		"a deleted rule stays until its taints are off all nodes": func(w *world) {
			nodes := w.addZone("a", 5)
			w.addRule("deadlock", goesAfter(time.Hour))
			w.run()
			w.locks(nodes...)
			w.waitForPlans()
			w.wantDeadlocked(nodes...)
			if finalizers := w.rule("deadlock").Finalizers; !slices.Equal(finalizers, []string{v1alpha1.Finalizer}) {
				w.T.Errorf("finalizers are %q", finalizers)
			}
			away := w.awayWebhook()
			w.deleteRule("deadlock")
			w.Until(time.Minute)
			w.wantDeadlocked(nodes...)
			if w.isGone("deadlock") {
				w.T.Error("the rule is gone before its taints are")
			}
			away.Store(false)
			w.Until(2 * time.Minute)
			w.wantDeadlocked()
			w.wantGone("deadlock")
		},
		"a finalizer that a user removed comes again": func(w *world) {
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
		},
		"a dry run only reports": func(w *world) {
			w.addZone("a", 4)
			w.addRule("deadlock", dryRun, atMost(intstr.FromInt32(2)))
			w.run()
			w.locks("a-0", "a-1", "a-2")
			w.waitForPlans()
			w.wantDeadlocked()
			w.wantStatus("deadlock", [4]int32{4, 3, 2, 1}, "Accepted", "MaxTainted")
			w.wantOnce("event deadlock TaintHeld 1 node waits")
			w.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Spec.DryRun = false })
			w.wantDeadlocked("a-0", "a-1")
			w.changeRule(dryRun)
			w.wantDeadlocked()
			w.wantStatus("deadlock", [4]int32{4, 3, 2, 1}, "Accepted", "MaxTainted")
		},
		"a process in a dry run writes nothing": func(w *world) {
			w.addZone("a", 4)
			w.addRule("deadlock", atMost(intstr.FromInt32(1)))
			w.run(func(c *Config) { c.DryRun = true })
			w.locks("a-0", "a-1")
			w.Until(time.Minute)
			if calls := append(w.Did("patch"), w.Did("event deadlock")...); len(calls) != 0 || w.writes.Load() != 0 {
				w.T.Errorf("calls at %v and %d writes of rules", calls, w.writes.Load())
			}
			w.wantMetric("tainted", 1)
			w.wantMetric("held", 1)
		},
		"a restart changes nothing": func(w *world) {
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
			writes := func() int { return len(w.Did("patch nodes")) + int(w.writes.Load()) + len(w.Did("event deadlock")) }
			before := writes()
			w.run()
			w.Until(99 * time.Second)
			if now := writes(); now != before {
				w.T.Errorf("%d writes after the restart, want none", now-before)
			}
			w.Until(102 * time.Second)
			w.wantDeadlocked("a-1", "a-2", "a-3")
		},
		"without the resource there are no rules until it is installed": func(w *world) {
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
		},
		"without a working watch of rules no node is tainted": func(w *world) {
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
		},
		"a rule that is recreated during the list of its nodes is followed": func(w *world) {
			w.addZone("a", 3)
			w.addRule("deadlock", atMost(intstr.FromInt32(1)))
			var once atomic.Bool
			w.listing = func() {
				if once.Swap(true) {
					return
				}
				r := w.rule("deadlock")
				r.Finalizers = nil
				w.Must(nil, w.rules.Update(w.T.Context(), r))
				w.Must(nil, w.rules.Delete(w.T.Context(), w.rule("deadlock")))
				r = r.DeepCopy()
				r.UID, r.ResourceVersion = types.UID("other"), ""
				w.Must(nil, w.rules.Create(w.T.Context(), r))
				w.InCall(time.Second)
			}
			log := funcr.New(func(_, line string) {
				if strings.Contains(line, "panic") { // from which controller-runtime recovers
					w.T.Error(line)
				}
			}, funcr.Options{})
			w.run(func(c *Config) { c.Logger = log })
			w.locks("a-0")
			w.Pass(time.Minute)
			w.wantDeadlocked("a-0")
		},
	}
	playStories(t, stories)
}

// How many nodes a plan may choose is tested in plan_test.go, and that there are never more in the random histories.
func TestABound(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	stories := map[string]func(w *world){
		"beyond maxTainted nodes wait, and are released in the order of their conditions": func(w *world) {
			w.addZone("a", 10)
			w.addRule("deadlock", atMost(intstr.FromString("29%"))) // rounded down
			w.run()
			for i, name := range []string{"a-7", "a-3", "a-9", "a-1", "a-0"} {
				w.Until(time.Duration(i+1) * 10 * time.Second)
				w.locks(name)
			}
			w.waitForPlans()
			w.wantDeadlocked("a-3", "a-7")
			w.wantStatus("deadlock", [4]int32{10, 5, 2, 3}, "Accepted", "MaxTainted")
			w.wantMetric("held", 3)
			w.wantOnce("event deadlock TaintHeld 1 node waits for taint " + deadlocked)
			w.unlocks("a-7")
			w.waitForPlans()
			w.waitForPlans()
			w.wantDeadlocked("a-3", "a-9")
			w.unlocks("a-3", "a-1")
			w.waitForPlans()
			w.waitForPlans()
			w.wantDeadlocked("a-0", "a-9")
			w.wantStatus("deadlock", [4]int32{10, 2, 2, 0}, "Accepted", "NoNodeHeld")
			w.wantOnce("event deadlock TaintNoLongerHeld")
		},
		"without a live list of its nodes no taint is added": func(w *world) {
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
		},
		"its nodes are listed only when a taint would be added": func(w *world) {
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
				w.T.Errorf("%d lists, want one before the first taint of the rule with a bound", got)
			}
		},
		// A standby whose watch lags takes over, which takes two seconds during a rolling update.
		"it holds when the next leader is behind": func(w *world) {
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
		},
		// A write of which the answer was lost was not done, and no change of the node will say so.
		"a place is free when a write was not done": func(w *world) {
			w.addZone("a", 3)
			w.ChangeNode("a-1", inPool)
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
			w.changeRule(ofPool)
			w.waitForPlans()
			away.Store(false)
			w.Until(time.Minute)
			w.wantDeadlocked("a-1")
		},
		"a refused node that lost its taint is not tried without pause": func(w *world) {
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
				w.T.Errorf("%d tries within ten minutes to write a taint that is refused, want about one a minute", n)
			}
			w.locks("a-1")
			w.Until(15 * time.Minute)
			w.wantDeadlocked("a-1")
		},
	}
	for name, test := range map[string]struct {
		bound  intstr.IntOrString
		held   [2]int32 // meanwhile, and in the end
		want   []string
		reason string
	}{
		"to none":     {intstr.FromInt32(0), [2]int32{8, 8}, nil, "MaxTainted"},
		"to a share":  {intstr.FromString("40%"), [2]int32{5, 5}, []string{"a-5", "a-6", "a-7"}, "MaxTainted"},
		"to too many": {intstr.FromInt32(9), [2]int32{0, 0}, []string{"a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7"}, "NoNodeHeld"},
	} {
		stories["one that is lowered stops nodes that were chosen and not yet tainted: "+name] = func(w *world) {
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
			w.wantStatus("deadlock", [4]int32{8, 8, 0, test.held[0]}, "Accepted", test.reason)
			away.Store(false)
			w.Until(3 * time.Minute)
			w.wantDeadlocked(test.want...)
			w.wantStatus("deadlock", [4]int32{8, 8, int32(len(test.want)), test.held[1]}, "Accepted", test.reason)
			if got := int(most()); got != len(test.want) {
				w.T.Errorf("up to %d nodes were tainted at once, want %d", got, len(test.want))
			}
			if events := w.Did("event deadlock TaintNoLongerHeld"); len(events) != 0 {
				w.T.Errorf("told at %v that no node waits anymore", events)
			}
		}
	}
	for name, unreadable := range map[string]bool{"and the node can be read": false, "and the node cannot be read either": true} {
		// A write of which the answer was lost is done, and the watch is too late to say so.
		stories["it holds when the answer to a write is lost, "+name] = func(w *world) {
			w.addZone("a", 3)
			w.ChangeNode("a-1", inPool)
			late := w.API.Watches("nodes")
			var lose, away atomic.Bool
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
			away.Store(unreadable)
			w.Client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return away.Load(), nil, errNotNow
			})
			w.run()
			w.waitForPlans()
			w.changeRule(ofPool)
			for range 120 {
				w.Pass(500 * time.Millisecond)
				if got := w.deadlocked(); len(got) > 1 {
					w.T.Fatalf("after %s the nodes %q have the taint, want 1 at most", w.Now(), got)
				}
			}
			away.Store(false)
			late.Release()
			w.Until(2 * time.Minute)
			w.wantDeadlocked("a-1")
		}
	}
	playStories(t, stories)
}

func TestSeveralRules(t *testing.T) {
	playStories(t, map[string]func(w *world){
		"of two with one taint the older wins, and the other takes over when it goes": func(w *world) {
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
				w.T.Errorf("%q does not name the other rule", message)
			}
			w.deleteRule("z-first")
			w.waitForPlans()
			w.WantTaints("a-0", "example.com/deadlock=second:NoSchedule")
			w.wantStatus("a-second", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
			w.wantGone("z-first")
		},
		"a takeover between two with one taint changes only the owner": func(w *world) {
			w.addZone("a", 3)
			w.addRule("older")
			w.Pass(time.Second)
			w.addRule("younger")
			w.run()
			w.locks("a-0", "a-1")
			w.waitForPlans()
			before := w.Node("a-0")
			w.Pass(5 * time.Second)
			var seen, changed atomic.Int32
			w.eachNode(func(event watch.Event, node *corev1.Node) {
				if node.Name == before.Name && event.Type == watch.Modified {
					seen.Add(1)
					if !apiequality.Semantic.DeepEqual(node.Spec.Taints, before.Spec.Taints) {
						changed.Add(1)
					}
				}
			})
			w.deleteRule("older")
			w.waitForPlans()
			w.wantDeadlocked("a-0", "a-1")
			if seen.Load() != 1 || changed.Load() != 0 {
				w.T.Errorf("the node changed %d times, and %d times it had other taints, want one change of the owner", seen.Load(), changed.Load())
			}
			w.wantGone("older")
			w.unlocks("a-0")
			w.waitForPlans()
			w.wantDeadlocked("a-1")
			w.wantStatus("younger", [4]int32{3, 1, 1, 0}, "Accepted", "NoNodeHeld")
		},
		// The older rule had tainted more nodes than the younger may, on nodes that the younger does not select, too.
		"one continues a deleted one as if that had been edited": func(w *world) {
			w.addZone("a", 4)
			w.addZone("b", 1)
			w.addRule("older", goesAfter(time.Hour))
			w.Pass(time.Second)
			w.addRule("younger", atMost(intstr.FromInt32(2)), goesAfter(time.Minute), inZone("a"))
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
				w.T.Errorf("a-0 was patched at %v, want once for the taint and once for the label", patches)
			}
			w.wantGone("older")
			w.Pass(20 * time.Second)
			w.wantDeadlocked("a-0", "a-1")
			w.deleteRule("younger")
			w.wantDeadlocked()
		},
		// The finalizer of the younger one cannot be written for now.
		"a takeover waits for a rule that cannot taint yet": func(w *world) {
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
			w.wantGone("older")
		},
		"a deleted rule that was invalid hands its nodes to the next": func(w *world) {
			w.addZone("a", 3)
			w.addRule("deadlock")
			w.run()
			w.locks("a-0")
			w.waitForPlans()
			w.wantDeadlocked("a-0")
			w.changeRule(about(corev1.NodeReady, corev1.ConditionFalse))
			w.Pass(time.Second)
			w.addRule("young")
			w.Pass(time.Minute)
			w.deleteRule("deadlock")
			w.Pass(10 * time.Minute)
			w.wantDeadlocked("a-0")
			w.wantGone("deadlock")
		},
		"of several taints the one that is refused keeps no other off": func(w *world) {
			w.addZone("a", 2)
			w.refusesTaint("example.com/refused")
			w.addRule("deadlock")
			w.addRule("refused", func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Key = "example.com/refused" })
			w.run()
			w.locks("a-0")
			w.Until(10 * time.Second)
			w.WantTaints("a-0", deadlocked)
			w.wantStatus("refused", [4]int32{2, 1, 0, 1}, "Accepted", "Refused")
		},
	})
}

func TestOtherWritersOfANode(t *testing.T) {
	label := v1alpha1.TaintedLabelPrefix + "deadlock"
	playStories(t, map[string]func(w *world){
		"a taint of others is never touched nor taken over, and counts for nothing": func(w *world) {
			w.AddNode("n", "a", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "example.com/deadlock", Value: "mine", Effect: corev1.TaintEffectNoSchedule}}
			})
			w.AddNode("same", "a", fromOthers)
			w.addZone("a", 2)
			w.addRule("deadlock", atMost(intstr.FromInt32(1)))
			w.run()
			w.locks("n", "same")
			w.waitForPlans()
			w.locks("a-0")
			w.waitForPlans()
			w.WantTaints("a-0", deadlocked)
			w.wantStatus("deadlock", [4]int32{4, 3, 1, 0}, "Accepted", "NoNodeHeld")
			w.unlocks("n", "same", "a-0")
			w.waitForPlans()
			w.WantTaints("a-0")
			if patches := append(w.Did("patch nodes n/"), w.Did("patch nodes same/")...); len(patches) != 0 {
				w.T.Errorf("they were patched at %v", patches)
			}
		},
		"a rule's taint that is removed comes again, and one that is overwritten is foreign": func(w *world) {
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
			w.wantGone("deadlock")
		},
		"a rule's taint is its own though its label was removed": func(w *world) {
			w.addZone("a", 5)
			w.addRule("deadlock", atMost(intstr.FromInt32(1)))
			w.run()
			w.locks("a-0", "a-1")
			w.waitForPlans()
			w.wantDeadlocked("a-0")
			w.ChangeNode("a-0", func(n *corev1.Node) { delete(n.Labels, label) })
			w.waitForPlans()
			w.wantDeadlocked("a-0") // it still takes the only place
			w.ChangeNode("a-0", func(n *corev1.Node) { delete(n.Labels, label) })
			w.deleteRule("deadlock")
			w.Pass(10 * time.Minute)
			w.wantDeadlocked()
			w.wantGone("deadlock")
		},
		// NodeRestriction keeps kubelets from taints and from such labels, and from nothing else of their nodes' metadata
		// that matters here: see test/e2e.
		"nothing that a kubelet may write takes a taint off": func(w *world) {
			w.addZone("a", 3)
			w.addRule("deadlock")
			w.run()
			w.unlocks("a-0")
			w.ChangeNode("a-0", fromOthers) // the taint of an administrator who examines the node
			w.waitForPlans()
			w.ChangeNode("a-0", func(n *corev1.Node) {
				n.Annotations = map[string]string{
					"taintkeeper.dev/node-taint-rules": `{"deadlock":"example.com/deadlock:NoSchedule"}`,
					label:                              fingerprint(deadlocked),
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
		},
		"a label cannot take off a taint that no rule has": func(w *world) {
			w.AddNode("n", "a", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "secure", Effect: corev1.TaintEffectNoSchedule}}
				n.Labels[v1alpha1.TaintedLabelPrefix+"ghost"] = fingerprint("dedicated=secure:NoSchedule")
				n.Labels[label] = fingerprint("dedicated=secure:NoSchedule")
			})
			w.addRule("deadlock")
			w.run()
			w.waitForPlans()
			w.WantTaints("n", "dedicated=secure:NoSchedule")
		},
		// Others write the node faster than the watch brings it.
		"a node that is always newer than the watch is tainted": func(w *world) {
			w.addZone("a", 3)
			late := w.API.Watches("nodes")
			w.addRule("deadlock")
			w.run()
			w.locks("a-0")
			late.Hold()
			w.ChangeNode("a-0", func(n *corev1.Node) { n.Labels["somebody"] = "else" })
			w.Pass(5 * time.Second)
			w.wantDeadlocked("a-0")
		},
		"rules and node health write their taints of one node": func(w *world) {
			w.addZone("a", 5)
			w.addRule("deadlock")
			w.runNextToNodeHealth()
			for range 10 {
				w.posts("a-0", corev1.ConditionTrue, corev1.ConditionFalse)
				w.Pass(20 * time.Second)
				w.WantTaints("a-0", deadlocked, "not-ready:NoExecute", "not-ready:NoSchedule")
				w.posts("a-0", corev1.ConditionFalse, corev1.ConditionTrue)
				w.Pass(20 * time.Second)
				w.WantTaints("a-0")
			}
		},
	})
}

// runNextToNodeHealth starts a Controller on the nodes of node health, which runs, too, and never finds a node silent.
func (w *world) runNextToNodeHealth() {
	w.T.Helper()
	controller, caches := w.controller()
	health, err := nodehealth.New(nodehealth.Config{
		Client: w.Client, Nodes: caches.Nodes, Pods: caches.Pods,
		Grace:  readiness.Grace{Monitor: 24 * time.Hour, Startup: 24 * time.Hour},
		Policy: readiness.Policy{Rate: readiness.DefaultRate, UnhealthyShare: readiness.DefaultUnhealthyShare},
	})
	w.Must(nil, err)
	bubble.Run(w.T, "node health", caches.With(health.Run))
	bubble.Run(w.T, "the Controller", controller.Run)
	w.Pass(planningTime)
}

// posts makes a node report whether it is deadlocked and ready in one update, so that both writers want the same
// version.
func (w *world) posts(name string, locked, ready corev1.ConditionStatus) {
	w.T.Helper()
	w.ChangeNode(name, func(n *corev1.Node) {
		now := metav1.Now()
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: deadlock, Status: locked, LastTransitionTime: now},
			{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: now, LastTransitionTime: now},
		}
	})
}

func TestCallsThatFail(t *testing.T) {
	playStories(t, map[string]func(w *world){
		"a conflict about a rule's taint is tried again": func(w *world) {
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
		},
		"each failed try to taint a node is a reconcile error": func(w *world) {
			w.addZone("a", 3)
			var failed atomic.Int32
			w.onPatch(func() error {
				if failed.Load() == 5 {
					return nil
				}
				failed.Add(1)
				return errNotNow
			})
			w.addRule("deadlock")
			before := bubble.ReconcileErrors(w.T, "node-taint-rule")
			w.run()
			w.locks("a-0")
			w.Until(time.Minute)
			w.wantDeadlocked("a-0")
			if got := bubble.ReconcileErrors(w.T, "node-taint-rule") - before; got != 5 {
				w.T.Errorf("controller-runtime counts %v errors, want 5", got)
			}
		},
		"a rule is not let go while a node has its taint that the watch has not brought": func(w *world) {
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
			w.wantGone("deadlock")
		},
		// An untaint fails once. Before its retry another node changes the rule's status, and writing that takes 5 s.
		"a retry that becomes due during a slow call is made": func(w *world) {
			w.addZone("a", 3)
			w.addRule("deadlock", comesAfter(time.Minute))
			w.run()
			w.locks("a-0")
			w.Until(2 * time.Minute)
			w.wantDeadlocked("a-0")
			away := w.awayWebhook()
			w.unlocks("a-0")
			w.Pass(9 * time.Second) // some failures
			away.Store(false)
			w.statusTakes.Store(int64(5 * time.Second))
			w.locks("a-1")
			w.Pass(30 * time.Second)
			w.wantDeadlocked()
		},
	})
}

func TestARuleThatBecomesInvalidFreezesWhatStands(t *testing.T) {
	flaw := requires("pool", "in", "batch")
	playStories(t, map[string]func(w *world){
		"until it is fixed or deleted": func(w *world) {
			w.addZone("a", 6)
			w.addRule("deadlock", atMost(intstr.FromInt32(4)))
			w.run()
			w.locks("a-0", "a-1", "a-2")
			w.waitForPlans()
			w.wantDeadlocked("a-0", "a-1", "a-2")
			w.changeRule(flaw)
			w.wantInvalid("nodeSelector")

			w.unlocks("a-0")
			w.locks("a-3")
			w.ChangeNode("a-1", func(n *corev1.Node) { n.Spec.Taints = nil }) // an administrator's order
			w.Until(10 * time.Minute)
			w.wantDeadlocked("a-0", "a-2")
			w.Stop()
			w.run()
			w.Until(20 * time.Minute)
			w.wantDeadlocked("a-0", "a-2")
			w.wantInvalid("nodeSelector")

			w.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Spec.NodeSelector = nil })
			w.waitForPlans()
			w.wantDeadlocked("a-1", "a-2", "a-3")
			w.wantOnce("event deadlock Accepted")
			w.changeRule(flaw)
			w.deleteRule("deadlock")
			w.waitForPlans()
			w.wantDeadlocked()
			w.wantGone("deadlock")
		},
		"and stops nodes that were chosen and not yet tainted": func(w *world) {
			nodes := w.addZone("a", 4)
			w.addRule("deadlock")
			w.run()
			away := w.awayWebhook()
			w.locks(nodes...)
			w.waitForPlans()
			w.changeRule(flaw)
			w.Pass(time.Minute)
			away.Store(false)
			w.Pass(time.Minute)
			w.wantDeadlocked()
			w.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Spec.NodeSelector = nil })
			w.waitForPlans()
			w.wantDeadlocked(nodes...)
		},
	})
}

// wantInvalid wants the status and an event to say in one sentence what is wrong with the rule.
func (w *world) wantInvalid(says string) {
	w.T.Helper()
	rule := w.rule("deadlock")
	accepted := rule.Status.Conditions[0]
	if accepted.Reason != v1alpha1.ReasonInvalid || !strings.Contains(accepted.Message, says) || !strings.HasSuffix(accepted.Message, untilFixed) {
		w.T.Errorf("after %s the rule says %s: %q, want it to be invalid because of %q", w.Now(), accepted.Reason, accepted.Message, says)
	}
	w.wantOnce("event deadlock Invalid " + accepted.Message)
	w.wantStatus("deadlock", [4]int32{0, 0, int32(len(w.deadlocked())), 0}, "Invalid", "NoNodeHeld")
}
