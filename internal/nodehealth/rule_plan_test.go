// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// aRule taints after 10 s and clears after 20 s.
func aRule(change ...func(*v1alpha1.NodeTaintRule)) *rule {
	object := &v1alpha1.NodeTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "rule"},
		Spec: v1alpha1.NodeTaintRuleSpec{
			Condition:  v1alpha1.NodeTaintRuleCondition{Type: deadlock, Status: corev1.ConditionTrue},
			Taint:      v1alpha1.NodeTaintRuleTaint{Key: "example.com/deadlock", Effect: corev1.TaintEffectNoSchedule},
			After:      metav1.Duration{Duration: 10 * time.Second},
			ClearAfter: metav1.Duration{Duration: 20 * time.Second},
		},
	}
	for _, apply := range change {
		apply(object)
	}
	return newRule(object, judge(object, nil), false)
}

// aNode is a node with the condition in a status since so many seconds after noon.
func aNode(name string, status corev1.ConditionStatus, since int, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: deadlock, Status: status, LastTransitionTime: metav1.NewTime(after(since))},
		}},
	}
	for _, apply := range change {
		apply(node)
	}
	return node
}

// fromRule gives a node the rule's taint.
func fromRule(node *corev1.Node) {
	node.Annotations = map[string]string{v1alpha1.OwnedAnnotation: `{"rule":"` + deadlocked + `"}`}
	fromOthers(node)
}

func fromOthers(node *corev1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "example.com/deadlock", Effect: corev1.TaintEffectNoSchedule})
}

func without(node *corev1.Node) { node.Status.Conditions = nil }

func labelled(node *corev1.Node) { node.Labels = map[string]string{"pool": "x"} }

func onlyPoolX(r *v1alpha1.NodeTaintRule) {
	r.Spec.NodeSelector = &v1alpha1.NodeTaintRuleSelector{MatchLabels: map[string]v1alpha1.NodeTaintRuleLabelValue{"pool": "x"}}
}

func TestPlanOfARule(t *testing.T) {
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	claimed := func(wanted bool, names ...string) ruleMemory {
		m := ruleMemory{claims: map[string]claim{}}
		for _, name := range names {
			m.claims[name] = claim{uid: types.UID("uid-of-" + name), wanted: wanted}
		}
		return m
	}
	refused := func(at int, name string) ruleMemory {
		return ruleMemory{refusals: map[string]refusal{name: {uid: types.UID("uid-of-" + name), at: after(at)}}}
	}
	tests := []struct {
		name    string
		rule    *rule
		nodes   []*corev1.Node
		memory  ruleMemory
		now     int
		want    []string // to have the taint
		counts  [4]int   // selected, matching, tainted, held
		next    int      // seconds after noon; 0: never
		leaving []string
	}{
		{name: "no node", rule: aRule(), now: 100},
		{name: "the condition has not held for long enough", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 95)}, now: 100, counts: [4]int{1, 1, 0, 0}, next: 105},
		{name: "it has", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 95)}, now: 105, want: []string{"a"}, counts: [4]int{1, 1, 0, 0}},
		{name: "a tainted node that matches stays", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 99, fromRule)}, now: 100, want: []string{"a"}, counts: [4]int{1, 1, 1, 0}},
		{name: "the condition is not over for long enough", rule: aRule(), nodes: []*corev1.Node{aNode("a", no, 95, fromRule)}, now: 114, want: []string{"a"}, counts: [4]int{1, 0, 1, 0}, next: 115},
		{name: "it is", rule: aRule(), nodes: []*corev1.Node{aNode("a", no, 95, fromRule)}, now: 115, counts: [4]int{1, 0, 1, 0}, leaving: []string{"a"}},
		{name: "a condition that vanished is over from when that was seen", rule: aRule(), nodes: []*corev1.Node{aNode("a", no, 0, fromRule, without)}, now: 100, want: []string{"a"}, counts: [4]int{1, 0, 1, 0}, next: 120},
		{name: "a condition of the future holds from when it was seen", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 500)}, now: 100, counts: [4]int{1, 1, 0, 0}, next: 110},
		{name: "a tainted node that is not selected goes at once", rule: aRule(onlyPoolX), nodes: []*corev1.Node{aNode("a", yes, 0, fromRule), aNode("b", yes, 0, labelled)}, now: 100, want: []string{"b"}, counts: [4]int{1, 1, 1, 0}, leaving: []string{"a"}},
		{name: "a taint of others is left alone", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 0, fromOthers)}, now: 100, counts: [4]int{1, 1, 0, 0}},
		{name: "the oldest come first, then by name", rule: aRule(atMost(intstr.FromInt32(2))), nodes: []*corev1.Node{aNode("c", yes, 5), aNode("b", yes, 7), aNode("a", yes, 7)}, now: 100, want: []string{"a", "c"}, counts: [4]int{3, 3, 0, 1}},
		{name: "tainted nodes take places", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 50, fromRule), aNode("b", yes, 0)}, now: 100, want: []string{"a"}, counts: [4]int{2, 2, 1, 1}},
		{name: "nodes that lose the taint take places until it is off", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", no, 0, fromRule), aNode("b", yes, 0)}, now: 100, counts: [4]int{2, 1, 1, 1}, leaving: []string{"a"}},
		{name: "so do those whose write may be under way", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", no, 99), aNode("b", yes, 0)}, memory: claimed(true, "a"), now: 100, counts: [4]int{2, 1, 0, 1}, leaving: []string{"a"}},
		{name: "none is taken off when there are more than the bound", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0, fromRule), aNode("b", yes, 0, fromRule)}, now: 100, want: []string{"a", "b"}, counts: [4]int{2, 2, 2, 0}},
		{name: "a percentage is of the selected nodes and rounded down", rule: aRule(onlyPoolX, atMost(intstr.FromString("67%"))), nodes: []*corev1.Node{aNode("a", yes, 0, labelled), aNode("b", yes, 0, labelled), aNode("c", no, 0)}, now: 100, want: []string{"a"}, counts: [4]int{2, 2, 0, 1}},
		{name: "none is taken off a node whose annotation somebody took away either", rule: aRule(atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0, fromOthers)}, memory: claimed(true, "a"), now: 100, want: []string{"a"}, counts: [4]int{1, 1, 0, 0}},
		{name: "a choice that is not written yields to a bound that was lowered", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0, fromRule), aNode("b", yes, 0)}, memory: claimed(true, "a", "b"), now: 100, want: []string{"a"}, counts: [4]int{2, 2, 1, 1}, leaving: []string{"b"}},
		{name: "and is held until it is made anew", rule: aRule(atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0)}, memory: claimed(false, "a"), now: 100, counts: [4]int{1, 1, 0, 1}, leaving: []string{"a"}},
		{name: "unless the condition is over by then", rule: aRule(atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", no, 99)}, memory: claimed(false, "a"), now: 100, counts: [4]int{1, 0, 0, 0}, leaving: []string{"a"}},
		{name: "so does one whose taint somebody took off", rule: aRule(atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0, fromRule, func(n *corev1.Node) { n.Spec.Taints = nil })}, memory: claimed(true, "a"), now: 100, counts: [4]int{1, 1, 1, 1}, leaving: []string{"a"}},
		{name: "in a dry run none yields: what was chosen has the taint", rule: aRule(dryRun, atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0)}, memory: claimed(true, "a"), now: 100, want: []string{"a"}, counts: [4]int{1, 1, 1, 0}},
		{name: "a bound of none holds all", rule: aRule(atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0)}, now: 100, counts: [4]int{1, 1, 0, 1}},
		{name: "a claim of another node with the name is none", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 99, func(n *corev1.Node) { n.UID = "another" })}, memory: claimed(true, "a"), now: 100, counts: [4]int{1, 1, 0, 0}, next: 109},
		{name: "a node that is not settled is no candidate", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 0)}, memory: claimed(false, "a"), now: 100, counts: [4]int{1, 1, 0, 0}, leaving: []string{"a"}},
		{name: "a node that was refused leaves its place to another", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0), aNode("b", yes, 10)}, memory: refused(90, "a"), now: 100, want: []string{"b"}, counts: [4]int{2, 2, 0, 1}, next: 150},
		{name: "and comes last when it may try again", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0), aNode("b", yes, 10)}, memory: refused(40, "a"), now: 100, want: []string{"b"}, counts: [4]int{2, 2, 0, 1}},
		{name: "and counts as held until it has the taint", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0)}, memory: refused(40, "a"), now: 100, want: []string{"a"}, counts: [4]int{1, 1, 0, 1}},
		{name: "which it has", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 0, fromRule)}, memory: refused(40, "a"), now: 100, want: []string{"a"}, counts: [4]int{1, 1, 1, 0}},
		{name: "a refusal of another node with the name is none", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 0, func(n *corev1.Node) { n.UID = "another" })}, memory: refused(90, "a"), now: 100, want: []string{"a"}, counts: [4]int{1, 1, 0, 0}},
		{name: "in a dry run what would be done counts as done", rule: aRule(dryRun, atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", no, 95), aNode("b", yes, 0)}, memory: claimed(true, "a"), now: 100, want: []string{"a"}, counts: [4]int{2, 1, 1, 1}, next: 115},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := planRule(test.rule, test.nodes, test.memory, after(test.now))
			var want, leaving []string
			for _, name := range slices.Sorted(maps.Keys(plan.claims)) {
				if plan.claims[name].wanted {
					want = append(want, name)
				} else {
					leaving = append(leaving, name)
				}
			}
			if !slices.Equal(want, test.want) || !slices.Equal(leaving, test.leaving) {
				t.Errorf("wants the taint on %q and off %q, want %q and %q", want, leaving, test.want, test.leaving)
			}
			if got := [4]int{plan.selected, plan.matching, plan.tainted, plan.held}; got != test.counts {
				t.Errorf("counts %v (selected, matching, tainted, held), want %v", got, test.counts)
			}
			if test.next == 0 && !plan.next.IsZero() || test.next != 0 && !plan.next.Equal(after(test.next)) {
				t.Errorf("next at %s, want %d s after noon", plan.next, test.next)
			}
		})
	}
}

func TestWhatARuleRemembersOfANodeEndsWithTheState(t *testing.T) {
	vanished := []*corev1.Node{aNode("a", corev1.ConditionFalse, 0, fromRule, without)}
	first := planRule(aRule(), vanished, ruleMemory{}, after(100))
	if later := planRule(aRule(), vanished, first.ruleMemory, after(119)); !later.next.Equal(after(120)) {
		t.Errorf("next at %s: the sighting was forgotten", later.next)
	}
	back := planRule(aRule(), []*corev1.Node{aNode("a", corev1.ConditionTrue, 90, fromRule)}, first.ruleMemory, after(110))
	again := planRule(aRule(), vanished, back.ruleMemory, after(115))
	if !again.next.Equal(after(135)) {
		t.Errorf("next at %s: it counts from the first time the condition vanished", again.next)
	}
}

// BenchmarkTwentyRulesOf15000Nodes plans all rules once, of which two have tainted half of the nodes.
func BenchmarkTwentyRulesOf15000Nodes(b *testing.B) {
	var nodes []*corev1.Node
	for i := range 15000 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"pool": "x"}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: deadlock, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if i%2 == 0 {
			n.Annotations = map[string]string{v1alpha1.OwnedAnnotation: `{"deadlock-0":"example.com/deadlock-0:NoSchedule","deadlock-1":"example.com/deadlock-1:NoSchedule"}`}
		}
		nodes = append(nodes, n)
	}
	book := newRulebook()
	var rules []*rule
	for i := range 20 {
		o := &v1alpha1.NodeTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("deadlock-", i), UID: types.UID(fmt.Sprint("u", i))}}
		o.Spec.Condition = v1alpha1.NodeTaintRuleCondition{Type: deadlock, Status: corev1.ConditionTrue}
		o.Spec.Taint = v1alpha1.NodeTaintRuleTaint{Key: fmt.Sprint("example.com/deadlock-", i), Effect: corev1.TaintEffectNoSchedule}
		rules = append(rules, newRule(o, judge(o, nil), false))
	}
	b.ResetTimer()
	for range b.N {
		for _, r := range rules {
			memory, _ := book.memory(r)
			book.enter(r, planRule(r, nodes, memory, time.Now()), nodes)
		}
	}
}

func TestTheKeysOfKubernetesAreBuiltIn(t *testing.T) {
	for key, want := range map[string]bool{
		"node.kubernetes.io/not-ready": true, "node.cloudprovider.kubernetes.io/shutdown": true, "kubernetes.io/x": true,
		"node-role.kubernetes.io/control-plane": true, "readiness.k8s.io/x": true, "k8s.io/x": true,
		"example.com/x": false, "kubernetes.io.example.com/x": false, "mykubernetes.io/x": false, "plain": false,
	} {
		if builtIn(key) != want {
			t.Errorf("%s: built in is %v, want %v", key, !want, want)
		}
	}
}
