// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/config"
)

func about(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) {
		r.Spec.Condition = v1alpha1.NodeTaintRuleCondition{Type: kind, Status: status}
	}
}

func evicts(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Effect = corev1.TaintEffectNoExecute }

func unbounded(r *v1alpha1.NodeTaintRule) { r.Spec.MaxTainted = nil }

func requires(key, operator string, values ...v1alpha1.LabelValue) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) {
		r.Spec.NodeSelector = &v1alpha1.Selector{MatchExpressions: []v1alpha1.SelectorRequirement{
			{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values},
		}}
	}
}

// flaws are what the API server refuses, but may have accepted while it had an older definition of the resource.
var flaws = map[string]struct {
	edit func(*v1alpha1.NodeTaintRule)
	says string
}{
	"a rule about Ready":                  {about(corev1.NodeReady, corev1.ConditionFalse), aboutReady},
	"a rule about Ready Unknown":          {about(corev1.NodeReady, corev1.ConditionUnknown), aboutReady},
	"a rule about MemoryPressure Unknown": {about(corev1.NodeMemoryPressure, corev1.ConditionUnknown), aboutUnknown},
	"a rule about DiskPressure Unknown":   {about(corev1.NodeDiskPressure, corev1.ConditionUnknown), aboutUnknown},
	"a rule about PIDPressure Unknown":    {about(corev1.NodePIDPressure, corev1.ConditionUnknown), aboutUnknown},
	"NoExecute without a bound":           {unbounded, withoutABound},
	"a selector with an unknown operator": {requires("pool", "in", "batch"), "nodeSelector"},
	"a selector that lacks values":        {requires("pool", "In"), "nodeSelector"},
	"a selector with an invalid key":      {requires("node pool", "Exists"), "nodeSelector"},
	"a selector with an invalid value":    {requires("pool", "In", "x y"), "nodeSelector"},
	"a bound that is not a number":        {atMost(intstr.FromString("some")), "maxTainted"},
}

func TestTheAPIServerSaysTheSameAsTheController(t *testing.T) {
	objects, err := config.Objects(config.CRD)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, sentence := range []string{aboutReady, aboutUnknown, withoutABound, tooLong} {
		if !strings.Contains(string(text), `"message":"`+sentence+`"`) {
			t.Errorf("config/crd.yaml does not say %q", sentence)
		}
	}
}

func TestARuleThatBecomesInvalidFreezesWhatStands(t *testing.T) {
	for name, flaw := range flaws {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.addZone("a", 6)
				w.addRule("deadlock", evicts, atMost(intstr.FromInt32(4)))
				w.run()
				w.locks("a-0", "a-1", "a-2")
				w.waitForPlans()
				w.wantDeadlocked("a-0", "a-1", "a-2")
				w.changeRule(flaw.edit)
				w.wantInvalid(flaw.says)

				w.unlocks("a-0")
				w.locks("a-3")
				w.ChangeNode("a-1", func(n *corev1.Node) { n.Spec.Taints = nil }) // an administrator's order
				w.Until(10 * time.Minute)
				w.wantDeadlocked("a-0", "a-2")
				w.Stop()
				w.run()
				w.Until(20 * time.Minute)
				w.wantDeadlocked("a-0", "a-2")
				w.wantInvalid(flaw.says)

				w.changeRule(func(r *v1alpha1.NodeTaintRule) {
					about(deadlock, corev1.ConditionTrue)(r)
					r.Spec.NodeSelector = nil
					atMost(intstr.FromInt32(4))(r)
				})
				w.waitForPlans()
				w.wantDeadlocked("a-1", "a-2", "a-3")
				if events := w.Did("event deadlock Accepted"); len(events) != 1 {
					t.Errorf("told at %v that the rule is accepted again, want once", events)
				}
				w.changeRule(flaw.edit)
				w.deleteRule("deadlock")
				w.waitForPlans()
				w.wantDeadlocked()
				if !w.isGone("deadlock") {
					t.Error("the deleted rule is still there")
				}
			})
		})
	}
}

func TestTheNameOfARuleMustFitIntoALabel(t *testing.T) {
	for length, want := range map[int]string{v1alpha1.LongestName: v1alpha1.ReasonAccepted, v1alpha1.LongestName + 1: v1alpha1.ReasonInvalid} {
		object := aRule(func(r *v1alpha1.NodeTaintRule) { r.Name = strings.Repeat("x", length) })
		if got := judge(object, nil); got.reason != want {
			t.Errorf("a name of %d characters is %s: %s", length, got.reason, got.message)
		}
	}
}

// wantInvalid wants the status and an event to say in one sentence what is wrong with the rule.
func (w *world) wantInvalid(says string) {
	w.T.Helper()
	rule := w.rule("deadlock")
	accepted := rule.Status.Conditions[0]
	if accepted.Reason != v1alpha1.ReasonInvalid || !strings.Contains(accepted.Message, says) || !strings.HasSuffix(accepted.Message, untilFixed) {
		w.T.Errorf("after %s the rule says %s: %q, want it to be invalid because of %q", time.Since(w.Start), accepted.Reason, accepted.Message, says)
	}
	if events := w.Did("event deadlock Invalid " + accepted.Message); len(events) != 1 {
		w.T.Errorf("told at %v that the rule is invalid, want once", events)
	}
	if got := [4]int32{rule.Status.Selected, rule.Status.Matching, rule.Status.Tainted, rule.Status.Held}; got[0] != 0 || got[1] != 0 || got[2] != int32(len(w.deadlocked())) || got[3] != 0 {
		w.T.Errorf("after %s the rule counts %v (selected, matching, tainted, held), and %q have its taint", time.Since(w.Start), got, w.deadlocked())
	}
}

func TestARuleThatIsInvalidFromTheBeginningTaintsNothing(t *testing.T) {
	for name, flaw := range flaws {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				nodes := w.addZone("a", 3)
				w.addRule("deadlock", evicts, atMost(intstr.FromInt32(3)), flaw.edit)
				w.run()
				w.locks(nodes...)
				w.Until(5 * time.Minute)
				w.wantDeadlocked()
				w.wantInvalid(flaw.says)
				w.deleteRule("deadlock")
				if !w.isGone("deadlock") {
					w.T.Error("the deleted rule is still there")
				}
			})
		})
	}
}

func TestAnInvalidRuleStopsNodesThatWereChosenAndNotYetTainted(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 4)
		w.addRule("deadlock")
		w.run()
		away := w.awayWebhook()
		w.locks(nodes...)
		w.waitForPlans()
		w.changeRule(requires("pool", "in", "batch"))
		w.Pass(time.Minute)
		away.Store(false)
		w.Pass(time.Minute)
		w.wantDeadlocked()
		w.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Spec.NodeSelector = nil })
		w.waitForPlans()
		w.wantDeadlocked(nodes...)
	})
}

// A rule may be about a pressure, as long as it is not about Unknown, which pressures become when the control plane is
// disrupted.
func TestARuleAboutAPressureWorks(t *testing.T) {
	for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		play(t, func(_ *testing.T, w *world) {
			w.AddNode("n", "a", func(n *corev1.Node) {
				n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodePIDPressure })
			})
			w.addRule("deadlock", evicts, atMost(intstr.FromInt32(1)), about(corev1.NodePIDPressure, status))
			w.run()
			w.wantDeadlocked()
			w.Report("n", corev1.NodePIDPressure, status)
			w.waitForPlans()
			w.wantDeadlocked("n")
		})
	}
}
