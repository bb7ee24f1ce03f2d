// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/verdict"
)

func TestADeletedRuleRemovesItsTaintAlthoughItsLabelWasRemoved(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock")
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.ChangeNode("a-0", func(n *corev1.Node) { delete(n.Labels, v1alpha1.TaintedLabelPrefix+"deadlock") })
		w.deleteRule("deadlock")
		w.Pass(10 * time.Minute)
		w.wantDeadlocked()
		if !w.isGone("deadlock") {
			t.Error("the deleted rule is still there")
		}
	})
}

func TestATaintGoesWithItsConditionAlthoughItsLabelWasRemoved(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock")
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.ChangeNode("a-0", func(n *corev1.Node) { delete(n.Labels, v1alpha1.TaintedLabelPrefix+"deadlock") })
		w.unlocks("a-0")
		w.Pass(10 * time.Minute)
		w.wantDeadlocked()
	})
}

func TestADeletedRuleThatWasInvalidHandsItsNodesToTheNext(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
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
		if !w.isGone("deadlock") {
			t.Error("the deleted rule is still there")
		}
	})
}

type hooked struct {
	client.WithWatch
	hook func()
}

func (h hooked) List(ctx context.Context, l client.ObjectList, o ...client.ListOption) error {
	if _, ok := l.(*metav1.PartialObjectMetadataList); ok {
		h.hook()
	}
	return h.WithWatch.List(ctx, l, o...)
}

func (hooked) IsWatchListSemanticsUnSupported() bool { return true }

func TestARuleThatIsRecreatedDuringTheListIsFollowed(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		var panics, lists atomic.Int32
		log := funcr.New(func(_, args string) {
			if strings.Contains(args, "panic") {
				panics.Add(1)
			}
		}, funcr.Options{})
		w.run(func(c *Config) {
			c.Logger = log
			rules := c.Rules
			c.Rules = hooked{rules, func() {
				if lists.Add(1) > 1 {
					return
				}
				r := w.rule("deadlock")
				r.Finalizers = nil
				if err := rules.Update(t.Context(), r); err != nil {
					t.Error(err)
				}
				if err := rules.Delete(t.Context(), w.rule("deadlock")); err != nil {
					t.Error(err)
				}
				r = r.DeepCopy()
				r.UID, r.ResourceVersion = types.UID("other"), ""
				if err := rules.Create(t.Context(), r); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) //nolint:forbidigo // virtual time in a synctest bubble
			}}
		})
		w.locks("a-0")
		w.Pass(time.Minute)
		w.wantDeadlocked("a-0")
		if panics.Load() > 0 {
			t.Errorf("%d panics, %d lists", panics.Load(), lists.Load())
		}
	})
}

// A reason changes long after the status did, and a new process sees only the new one.
func TestARestartMakesNoTaintEarlyBecauseOfAReason(t *testing.T) {
	v, f := aView(aRule(becauseOf("A")), after(1000), aNode("a", corev1.ConditionTrue, 0, because("B")))
	v.setNode(sighting{node: as(aNode("a", corev1.ConditionTrue, 0), because("A")), seen: verdict.SeenAt(after(1001)).Sight})
	v.plan(f.rule.object.UID, nil, after(1002))
	w, _ := nodesOf(f)
	v2, f2 := aView(aRule(becauseOf("A")), after(1002), as(aNode("a", corev1.ConditionTrue, 0), because("A")))
	v2.plan(f2.rule.object.UID, nil, after(1002))
	w2, _ := nodesOf(f2)
	if len(w2) != len(w) {
		t.Errorf("one process taints %v, another that begins now %v", w, w2)
	}
}

// A node was recreated, and the watch has not brought it yet.
func TestAPlanIsNotCarriedOutOnAnotherNodeOfThatName(t *testing.T) {
	v, f := aView(aRule(), after(100), aNode("a", corev1.ConditionTrue, 0))
	v.plan(f.rule.object.UID, nil, after(100))
	fresh := aNode("a", corev1.ConditionTrue, 100)
	fresh.UID, fresh.ResourceVersion = "another", "99"
	e, ok := v.edit(f.rule, fresh, true, after(100))
	if ok {
		t.Errorf("taints another node with the name at once: %v", e.Taints)
	}
}

type slowStatus struct {
	client.WithWatch
	slow *atomic.Bool
}

func (s slowStatus) Status() client.SubResourceWriter {
	return slowWriter{s.WithWatch.Status(), s.slow}
}

func (slowStatus) IsWatchListSemanticsUnSupported() bool { return true }

type slowWriter struct {
	client.SubResourceWriter
	slow *atomic.Bool
}

func (s slowWriter) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	if s.slow.Load() {
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time in a synctest bubble
	}
	return s.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// An untaint fails once. Before its retry another node changes the rule's status, and writing that takes 5 s.
func TestARetryThatBecomesDueDuringASlowCallIsMade(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var slow, fail atomic.Bool
		w.addZone("a", 3)
		w.addRule("deadlock", func(r *v1alpha1.NodeTaintRule) { r.Spec.After.Duration = time.Minute })
		w.run(func(c *Config) { c.Rules = slowStatus{c.Rules, &slow} })
		w.locks("a-0")
		w.Until(2 * time.Minute)
		w.wantDeadlocked("a-0")
		w.onPatch(func() error {
			if fail.Load() {
				return apierrors.NewInternalError(errors.New("etcd"))
			}
			return nil
		})
		fail.Store(true)
		w.unlocks("a-0")
		w.Pass(9 * time.Second) // some failures
		fail.Store(false)
		slow.Store(true)
		w.ChangeNode("a-1", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: deadlock, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		})
		w.Pass(30 * time.Second)
		w.wantDeadlocked()
		w.Pass(20 * time.Second)
		w.wantDeadlocked()
	})
}
