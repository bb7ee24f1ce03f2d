// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/verdict"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// aRule taints after 10 s and clears after 20 s.
func aRule(change ...func(*v1alpha1.NodeTaintRule)) *v1alpha1.NodeTaintRule {
	object := &v1alpha1.NodeTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "rule", UID: "uid-of-rule", Generation: 1},
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
	return object
}

// aNode returns a node whose condition has had a status since the given number of seconds after noon.
func aNode(name string, status corev1.ConditionStatus, since int, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1"},
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
	labelledByRule(node)
	fromOthers(node)
}

func labelledByRule(node *corev1.Node) {
	node.Labels = map[string]string{v1alpha1.TaintedLabelPrefix + "rule": fingerprint(deadlocked)}
}

func fromOthers(node *corev1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "example.com/deadlock", Effect: corev1.TaintEffectNoSchedule})
}

func because(reason string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].Reason = reason }
}

func becauseOf(reasons ...string) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) { r.Spec.Condition.Reasons = reasons }
}

func without(node *corev1.Node) { node.Status.Conditions = nil }

func labeled(node *corev1.Node) { node.Labels = map[string]string{"pool": "x"} }

func onlyPoolX(r *v1alpha1.NodeTaintRule) {
	r.Spec.NodeSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "x"}}
}

// aView makes a view that knows of a rule and has seen nodes at an instant.
func aView(rule *v1alpha1.NodeTaintRule, at time.Time, nodes ...*corev1.Node) (*view, *followed) {
	b := newView(false)
	b.setRules([]*v1alpha1.NodeTaintRule{rule}, verdict.SeenAt(at).Sight)
	for _, node := range nodes {
		b.setNode(sighting{node: node, seen: verdict.SeenAt(at).Sight})
	}
	return b, b.rules[rule.UID]
}

// aPlan is the state of a rule and of nodes, and what the plan for them must be.
type aPlan struct {
	name    string
	rule    *v1alpha1.NodeTaintRule
	nodes   []*corev1.Node
	chosen  []string // by the previous plan
	unseen  []string // nodes that have the taint or may have it, and do not show it
	refused map[string]int
	now     int
	want    []string // to have the taint
	counts  [4]int   // selected, matching, tainted, held
	next    int      // seconds after noon, or 0 for never
	leaving []string
}

// planned makes the plan, with everything that the aPlan says happened before it.
func (a aPlan) planned() *followed {
	b, p := aView(a.rule, after(a.now), a.nodes...)
	for _, name := range a.chosen {
		if p.nodes[name] == nil { // it had the condition then
			p.nodes[name] = &ruleNode{facts: facts{selected: true}, since: after(95)}
		}
		p.nodes[name].wanted = true
	}
	for name, at := range a.refused {
		p.nodes[name].refusal = &refusal{at: after(at)}
	}
	b.plan(a.rule.UID, a.unseen, after(a.now))
	return p
}

// nodesOf returns the nodes that are to have the taint of a rule, and those that are to lose it.
func nodesOf(p *followed) (want, leaving []string) {
	for name, node := range p.nodes {
		switch {
		case node.wanted:
			want = append(want, name)
		case node.owned || node.labeled:
			leaving = append(leaving, name)
		}
	}
	slices.Sort(want)
	return want, leaving
}

func TestPlanOfARule(t *testing.T) {
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	tests := []aPlan{
		{name: "no node", rule: aRule(), now: 100},
		{name: "the condition has not held for long enough", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 95)}, now: 100, counts: [4]int{1, 1, 0, 0}, next: 105},
		{name: "it has", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 95)}, now: 105, want: []string{"a"}, counts: [4]int{1, 1, 0, 0}},
		{name: "any reason matches by default", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 0, because("Hung"))}, now: 100, want: []string{"a"}, counts: [4]int{1, 1, 0, 0}},
		{name: "one of several reasons matches, from when it is seen", rule: aRule(becauseOf("Hung", "Oops")), nodes: []*corev1.Node{aNode("a", yes, 0, because("Oops"))}, now: 100, counts: [4]int{1, 1, 0, 0}, next: 110},
		{name: "another reason does not, nor does none", rule: aRule(becauseOf("Hung")), nodes: []*corev1.Node{aNode("a", yes, 0, because("HungUp")), aNode("b", yes, 0)}, now: 100, counts: [4]int{2, 0, 0, 0}},
		{name: "with another reason the condition is over, from when that is seen", rule: aRule(becauseOf("Hung")), nodes: []*corev1.Node{aNode("a", yes, 95, fromRule, because("Oops"))}, now: 114, want: []string{"a"}, counts: [4]int{1, 0, 1, 0}, next: 134},
		{name: "a reason of another status does not match", rule: aRule(becauseOf("Hung")), nodes: []*corev1.Node{aNode("a", no, 0, because("Hung"))}, now: 100, counts: [4]int{1, 0, 0, 0}},
		{name: "a tainted node that matches stays", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 99, fromRule)}, now: 100, want: []string{"a"}, counts: [4]int{1, 1, 1, 0}},
		{name: "the condition has not been over for long enough", rule: aRule(), nodes: []*corev1.Node{aNode("a", no, 95, fromRule)}, now: 114, want: []string{"a"}, counts: [4]int{1, 0, 1, 0}, next: 115},
		{name: "it is", rule: aRule(), nodes: []*corev1.Node{aNode("a", no, 95, fromRule)}, now: 115, counts: [4]int{1, 0, 1, 0}, leaving: []string{"a"}},
		{name: "a condition that vanished is over from when that was seen", rule: aRule(), nodes: []*corev1.Node{aNode("a", no, 0, fromRule, without)}, now: 100, want: []string{"a"}, counts: [4]int{1, 0, 1, 0}, next: 120},
		{name: "a condition dated in the future holds from when it was seen", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 500)}, now: 100, counts: [4]int{1, 1, 0, 0}, next: 110},
		{name: "a tainted node that is not selected goes at once", rule: aRule(onlyPoolX), nodes: []*corev1.Node{aNode("a", yes, 0, fromRule), aNode("b", yes, 0, labeled)}, now: 100, want: []string{"b"}, counts: [4]int{1, 1, 1, 0}, leaving: []string{"a"}},
		{name: "a taint of others is left alone", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 0, fromOthers)}, now: 100, counts: [4]int{1, 1, 0, 0}},
		{name: "the oldest come first, then by name", rule: aRule(atMost(intstr.FromInt32(2))), nodes: []*corev1.Node{aNode("c", yes, 5), aNode("b", yes, 7), aNode("a", yes, 7)}, now: 100, want: []string{"a", "c"}, counts: [4]int{3, 3, 0, 1}},
		{name: "tainted nodes take places", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 50, fromRule), aNode("b", yes, 0)}, now: 100, want: []string{"a"}, counts: [4]int{2, 2, 1, 1}},
		{name: "nodes that lose the taint take places until it is off", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", no, 0, fromRule), aNode("b", yes, 0)}, now: 100, counts: [4]int{2, 1, 1, 1}, leaving: []string{"a"}},
		{name: "so do those whose write was not answered", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", no, 99), aNode("b", yes, 0)}, unseen: []string{"a"}, now: 100, counts: [4]int{2, 1, 0, 1}},
		{name: "and that is the place of the node itself", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 50), aNode("b", yes, 0)}, unseen: []string{"a"}, now: 100, want: []string{"a"}, counts: [4]int{2, 2, 0, 1}},
		{name: "none is taken off when there are more than the bound", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0, fromRule), aNode("b", yes, 0, fromRule)}, now: 100, want: []string{"a", "b"}, counts: [4]int{2, 2, 2, 0}},
		{name: "a percentage is of the selected nodes and rounded down", rule: aRule(onlyPoolX, atMost(intstr.FromString("67%"))), nodes: []*corev1.Node{aNode("a", yes, 0, labeled), aNode("b", yes, 0, labeled), aNode("c", no, 0)}, now: 100, want: []string{"a"}, counts: [4]int{2, 2, 0, 1}},
		{name: "a choice that is not written yields to a bound that was lowered", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0, fromRule), aNode("b", yes, 0)}, chosen: []string{"a", "b"}, now: 100, want: []string{"a"}, counts: [4]int{2, 2, 1, 1}},
		{name: "so does one that may be written", rule: aRule(atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0)}, unseen: []string{"a"}, now: 100, counts: [4]int{1, 1, 0, 1}},
		{name: "a taint that another client removed comes again at once", rule: aRule(), nodes: []*corev1.Node{aNode("a", yes, 99, labelledByRule)}, now: 100, want: []string{"a"}, counts: [4]int{1, 1, 0, 0}},
		{name: "unless the bound was lowered", rule: aRule(atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0, labelledByRule)}, now: 100, counts: [4]int{1, 1, 0, 1}, leaving: []string{"a"}},
		{name: "or the condition is over", rule: aRule(), nodes: []*corev1.Node{aNode("a", no, 99, labelledByRule)}, now: 100, counts: [4]int{1, 0, 0, 0}, leaving: []string{"a"}},
		{name: "in a dry run none yields: what was chosen has the taint", rule: aRule(dryRun, atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0)}, chosen: []string{"a"}, now: 100, want: []string{"a"}, counts: [4]int{1, 1, 1, 0}},
		{name: "a bound of 0 holds all", rule: aRule(atMost(intstr.FromInt32(0))), nodes: []*corev1.Node{aNode("a", yes, 0)}, now: 100, counts: [4]int{1, 1, 0, 1}},
		{name: "a node that was refused leaves its place to another", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0), aNode("b", yes, 10)}, refused: map[string]int{"a": 90}, now: 100, want: []string{"b"}, counts: [4]int{2, 2, 0, 1}, next: 150},
		{name: "and comes last when it may try again", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0), aNode("b", yes, 10)}, refused: map[string]int{"a": 40}, now: 100, want: []string{"b"}, counts: [4]int{2, 2, 0, 1}},
		{name: "and counts as held until it has the taint", rule: aRule(atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", yes, 0)}, refused: map[string]int{"a": 40}, now: 100, want: []string{"a"}, counts: [4]int{1, 1, 0, 1}},
		{name: "in a dry run what would be done counts as done", rule: aRule(dryRun, atMost(intstr.FromInt32(1))), nodes: []*corev1.Node{aNode("a", no, 95), aNode("b", yes, 0)}, chosen: []string{"a"}, now: 100, want: []string{"a"}, counts: [4]int{2, 1, 1, 1}, next: 115},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := test.planned()
			want, leaving := nodesOf(p)
			if !slices.Equal(want, test.want) || !slices.Equal(leaving, test.leaving) {
				t.Errorf("wants the taint on %q and off %q, want %q and %q", want, leaving, test.want, test.leaving)
			}
			o := p.outcome
			if got := [4]int{o.selected, o.matching, o.tainted, o.held}; got != test.counts {
				t.Errorf("counts %v (selected, matching, tainted, held), want %v", got, test.counts)
			}
			var next time.Time
			if test.next != 0 {
				next = after(test.next)
			}
			if !o.next.Equal(next) {
				t.Errorf("next at %s, want %d s after noon", o.next, test.next)
			}
		})
	}
}

// as returns the next version of a node.
func as(node *corev1.Node, change ...func(*corev1.Node)) *corev1.Node {
	next := node.DeepCopy()
	version, _ := strconv.Atoi(node.ResourceVersion)
	next.ResourceVersion = strconv.Itoa(version + 1)
	for _, apply := range change {
		apply(next)
	}
	return next
}

func says(status corev1.ConditionStatus, since int) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: deadlock, Status: status, LastTransitionTime: metav1.NewTime(after(since))}}
	}
}

func TestWhatThisProcessSawChangeCountsByItsOwnClockAndTheRestIsDated(t *testing.T) {
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	for name, test := range map[string]struct {
		first *corev1.Node // at second 100
		then  []func(*corev1.Node)
		since int  // at second 200, when the last has come
		gap   bool // the watch was interrupted before each of then
	}{
		"at first sight the condition says since when":                 {aNode("a", yes, 30), nil, 30, false},
		"unless that is yet to come":                                   {aNode("a", yes, 300), nil, 100, false},
		"a change counts from when it was seen":                        {aNode("a", no, 30), []func(*corev1.Node){says(yes, -600)}, 150, false},
		"so does a condition that came":                                {aNode("a", no, 0, without), []func(*corev1.Node){says(yes, -600)}, 150, false},
		"and one that vanished":                                        {aNode("a", yes, 30, fromRule), []func(*corev1.Node){without}, 150, false},
		"a status that is posted again goes on":                        {aNode("a", yes, 30), []func(*corev1.Node){says(yes, 149), says(yes, 199)}, 30, false},
		"one that is over goes on being over when it is unknown":       {aNode("a", no, 30, fromRule), []func(*corev1.Node){says(unknown, 149), says(no, 199)}, 30, false},
		"a condition that was over begins again":                       {aNode("a", yes, 30), []func(*corev1.Node){says(no, 31), says(yes, 32)}, 200, false},
		"over a gap a condition goes on if its transition is the same": {aNode("a", yes, 30), []func(*corev1.Node){says(yes, 30)}, 30, true},
		"and is dated by its transition if that is another":            {aNode("a", yes, 30), []func(*corev1.Node){says(yes, 140)}, 140, true},
		"which the gap cannot put before what was known":               {aNode("a", yes, 30), []func(*corev1.Node){says(yes, 10)}, 30, true},
		"and counts from the sight if it is yet to come":               {aNode("a", yes, 30), []func(*corev1.Node){says(yes, 300)}, 150, true},
		"so is one that changed over a gap":                            {aNode("a", no, 30), []func(*corev1.Node){says(yes, 120)}, 120, true},
		"and one that was over, and is over again":                     {aNode("a", no, 30, fromRule), []func(*corev1.Node){says(no, 130)}, 130, true},
		"one that vanished over a gap is over from the sight":          {aNode("a", yes, 30, fromRule), []func(*corev1.Node){without}, 150, true},
		"and one that was gone before stays gone":                      {aNode("a", no, 0, fromRule, without), []func(*corev1.Node){without}, 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := aView(aRule(), after(100), test.first)
			node := test.first
			for i, change := range test.then {
				next := as(node, change)
				b.setNode(sighting{node: next, seen: verdict.SeenAt(after(150 + 50*i)).Sight, gap: test.gap})
				node = next
			}
			if got := p.nodes["a"].since; !got.Equal(after(test.since)) {
				t.Errorf("it counts from %s, want %d s after noon", got, test.since)
			}
		})
	}
}

func TestOnlyWhatConcernsARuleMakesItBePlanned(t *testing.T) {
	label := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{"pool": "x", key: "y"} }
	}
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat":                      {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(after(1)) }, false},
		"a condition that is posted again": {says(corev1.ConditionFalse, 99), false},
		"another condition": {func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
		}, false},
		"a status that does not bring the taint either":   {says(corev1.ConditionUnknown, 99), false},
		"a label that the rule does not select by":        {label("other"), false},
		"a taint with another key":                        {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}} }, false},
		"another reason, which the rule does not ask for": {because("Oops"), false},
		"the condition":                          {says(corev1.ConditionTrue, 99), true},
		"a label that it selects by":             {func(n *corev1.Node) { n.Labels = nil }, true},
		"a taint with its key":                   {fromOthers, true},
		"the label that says whose the taint is": {label(v1alpha1.TaintedLabelPrefix + "rule"), false},
		"with its value":                         {labelledByRule, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := aNode("a", corev1.ConditionFalse, 0, labeled)
			b, p := aView(aRule(onlyPoolX), after(100), node)
			b.plan(p.rule.object.UID, nil, after(100))
			if got := len(b.setNode(sighting{node: as(node, test.change), seen: verdict.SeenAt(after(101)).Sight})) == 1; got != test.want {
				t.Errorf("the rule is planned again: %v, want %v", got, test.want)
			}
		})
	}
}

// A write that was bound to a version of the node can still arrive until the node has a newer version, or the call has
// certainly ended.
func TestAWriteWithoutAnAnswerTakesItsPlaceWhileItCanCome(t *testing.T) {
	for name, test := range map[string]struct {
		now     int
		changed bool
		want    []string
	}{
		"while the call may go on": {now: 110},
		"until it has ended":       {now: 135, want: []string{"b"}},
		"or the node is newer":     {now: 110, changed: true, want: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := aNode("a", corev1.ConditionFalse, 0)
			v, p := aView(aRule(atMost(intstr.FromInt32(1))), after(100), other, aNode("b", corev1.ConditionTrue, 0))
			v.noteUnanswered(other, p.rule.text, after(135))
			if test.changed {
				v.setNode(sighting{node: as(other), seen: verdict.SeenAt(after(105)).Sight})
			}
			planned, _ := v.plan(p.rule.object.UID, nil, after(test.now))
			if want, _ := nodesOf(p); !slices.Equal(want, test.want) {
				t.Errorf("wants the taint on %q, want %q", want, test.want)
			}
			if waits := planned.next.Equal(after(135)); waits != (test.want == nil) {
				t.Errorf("plans again at %s", planned.next)
			}
		})
	}
}

func TestWhichRulesAreAccepted(t *testing.T) {
	evicts := func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Effect = corev1.TaintEffectNoExecute }
	named := func(name string) func(*v1alpha1.NodeTaintRule) {
		return func(r *v1alpha1.NodeTaintRule) { r.Name = name }
	}
	older := func(change ...func(*v1alpha1.NodeTaintRule)) *v1alpha1.NodeTaintRule {
		return aRule(append(change, func(r *v1alpha1.NodeTaintRule) {
			r.Name, r.CreationTimestamp = "older", metav1.NewTime(noon.Add(-time.Hour))
		})...)
	}
	deleted := func(r *v1alpha1.NodeTaintRule) { r.DeletionTimestamp = &metav1.Time{Time: noon} }
	key := func(key string) func(*v1alpha1.NodeTaintRule) {
		return func(r *v1alpha1.NodeTaintRule) { r.Spec.Taint.Key = key }
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.NodeTaintRule)
		other  *v1alpha1.NodeTaintRule
		reason string
		says   string
	}{
		"a plain one":               {dryRun, nil, v1alpha1.ReasonAccepted, "only reports"},
		"the longest name":          {named(strings.Repeat("x", v1alpha1.LongestName)), nil, v1alpha1.ReasonAccepted, "in force"},
		"a pressure that is True":   {about(corev1.NodePIDPressure, corev1.ConditionTrue), nil, v1alpha1.ReasonAccepted, ""},
		"a pressure that is False":  {about(corev1.NodePIDPressure, corev1.ConditionFalse), nil, v1alpha1.ReasonAccepted, ""},
		"a key of Kubernetes":       {key("node.kubernetes.io/not-ready"), nil, v1alpha1.ReasonBuiltInKey, untilFixed},
		"an older one, same taint":  {func(*v1alpha1.NodeTaintRule) {}, older(), v1alpha1.ReasonTaintConflict, "Rule older"},
		"an older one that is gone": {func(*v1alpha1.NodeTaintRule) {}, older(deleted), v1alpha1.ReasonAccepted, ""},
		"an older one with a flaw":  {func(*v1alpha1.NodeTaintRule) {}, older(requires("x", "Sometimes")), v1alpha1.ReasonAccepted, ""},
		"another effect":            {evicts, older(), v1alpha1.ReasonInvalid, ""},
		"another key":               {key("example.com/other"), older(), v1alpha1.ReasonAccepted, ""},

		// The API server refuses these, but may have accepted them while it had an older definition of the resource.
		"Ready":                      {about(corev1.NodeReady, corev1.ConditionFalse), nil, v1alpha1.ReasonInvalid, aboutReady},
		"Ready Unknown":              {about(corev1.NodeReady, corev1.ConditionUnknown), nil, v1alpha1.ReasonInvalid, aboutReady},
		"MemoryPressure Unknown":     {about(corev1.NodeMemoryPressure, corev1.ConditionUnknown), nil, v1alpha1.ReasonInvalid, aboutUnknown},
		"DiskPressure Unknown":       {about(corev1.NodeDiskPressure, corev1.ConditionUnknown), nil, v1alpha1.ReasonInvalid, aboutUnknown},
		"PIDPressure Unknown":        {about(corev1.NodePIDPressure, corev1.ConditionUnknown), nil, v1alpha1.ReasonInvalid, aboutUnknown},
		"NoExecute without a bound":  {evicts, nil, v1alpha1.ReasonInvalid, withoutABound},
		"an unknown operator":        {requires("pool", "in", "batch"), nil, v1alpha1.ReasonInvalid, "nodeSelector"},
		"a selector without values":  {requires("pool", "In"), nil, v1alpha1.ReasonInvalid, "nodeSelector"},
		"an invalid key of a label":  {requires("node pool", "Exists"), nil, v1alpha1.ReasonInvalid, "nodeSelector"},
		"an invalid value of one":    {requires("pool", "In", "x y"), nil, v1alpha1.ReasonInvalid, "nodeSelector"},
		"a bound in words":           {atMost(intstr.FromString("some")), nil, v1alpha1.ReasonInvalid, "maxTainted"},
		"a name too long for labels": {named(strings.Repeat("x", v1alpha1.LongestName+1)), nil, v1alpha1.ReasonInvalid, tooLong},
	} {
		object := aRule(test.change)
		object.CreationTimestamp = metav1.NewTime(noon)
		all := []*v1alpha1.NodeTaintRule{object}
		if test.other != nil {
			all = append(all, test.other)
		}
		got := judge(object, all)
		if got.reason != test.reason || !strings.Contains(got.message, test.says) {
			t.Errorf("%s: it is %s: %s, want %s: %s", name, got.reason, got.message, test.reason, test.says)
		}
		if got.flawed() != strings.HasSuffix(got.message, untilFixed) {
			t.Errorf("%s: %s", name, got.message)
		}
	}
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

// A node was recreated, and the watch has not brought it yet.
func TestAPlanIsNotCarriedOutOnAnotherNodeOfThatName(t *testing.T) {
	v, f := aView(aRule(), after(100), aNode("a", corev1.ConditionTrue, 0))
	v.plan(f.rule.object.UID, nil, after(100))
	fresh := aNode("a", corev1.ConditionTrue, 100)
	fresh.UID, fresh.ResourceVersion = "another", "99"
	if e, ok := v.edit(f.rule, fresh, true, after(100)); ok {
		t.Errorf("taints another node with the name at once: %v", e.Taints)
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
