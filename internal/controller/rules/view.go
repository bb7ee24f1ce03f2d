// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// view is what the watches have shown of the rules and of the nodes that concern them. A change of a node costs what it
// changes: only rules for which it makes a difference are planned again, and only for the nodes that have their
// condition or their taint. It makes no calls and reads no clock. It is safe for concurrent use.
type view struct {
	dryRun bool

	mu         sync.Mutex
	nodes      map[string]*corev1.Node
	rules      map[types.UID]*followed     // a rule that was recreated under its name is another rule
	unanswered map[nodeTaint]unansweredAdd // by the node, and the text of the taint
}

// followed is a rule with its newest plan.
type followed struct {
	rule     *rule
	selected int
	nodes    map[string]*ruleNode
	outcome  outcome
}

// nodeTaint names a node and a taint, as text.
type nodeTaint struct{ node, taint string }

// unansweredAdd is a write without an answer that adds a taint to a node. As long as the node has the version that is
// the precondition of the write, the taint may still be added, until the call has ended in the API server.
type unansweredAdd struct {
	version metav1.Object
	until   time.Time
}

// sighting is how this process sees a node.
type sighting struct {
	node *corev1.Node
	seen verdict.Sight
	gap  bool // versions of the node may have been missed since the last sighting
}

func newView(dryRun bool) *view {
	return &view{
		dryRun: dryRun, nodes: map[string]*corev1.Node{}, rules: map[types.UID]*followed{},
		unanswered: map[nodeTaint]unansweredAdd{},
	}
}

// setRules notes which rules exist now.
func (v *view) setRules(all []*v1alpha1.NodeTaintRule, seen verdict.Sight) {
	v.mu.Lock()
	defer v.mu.Unlock()
	rules := make(map[types.UID]*rule, len(all))
	for _, object := range all {
		rules[object.UID] = newRule(object, judge(object, all), v.dryRun)
	}
	passOn(rules)
	for uid, r := range rules {
		f, ok := v.rules[uid]
		if !ok {
			f = &followed{}
			v.rules[uid] = f
		}
		if !ok || !f.rule.same(r) {
			v.define(f, r, seen)
		}
	}
	maps.DeleteFunc(v.rules, func(uid types.UID, _ *followed) bool { return rules[uid] == nil })
}

// define sets the version of a rule, and looks at all nodes again.
func (v *view) define(f *followed, r *rule, seen verdict.Sight) {
	known := f.nodes
	if f.rule != nil && !apiequality.Semantic.DeepEqual(f.rule.object.Spec.Condition, r.object.Spec.Condition) {
		for _, node := range known { // nothing is known about another condition
			node.since = time.Time{}
		}
	}
	f.rule, f.outcome.rule, f.nodes, f.selected = r, r, map[string]*ruleNode{}, 0
	for name, node := range v.nodes {
		f.see(known[name], nil, sighting{node: node, seen: seen})
	}
}

func (f *followed) request() Request {
	return Request{Name: f.rule.object.Name, UID: f.rule.object.UID}
}

// see notes what a rule sees of a node, given what it knew about the node.
func (f *followed) see(known *ruleNode, before *corev1.Node, now sighting) {
	is := f.rule.facts(now.node)
	if is.selected {
		f.selected++
	}
	next := &ruleNode{facts: is, owned: f.rule.owns(is, known)}
	if known != nil {
		next.wanted = known.wanted
		if !next.owned {
			next.refusal = known.refusal
		}
	}
	if !is.matches() && !is.marked() && !next.has(f.rule) {
		return
	}
	next.since = f.rule.sinceWhen(known, before, now)
	f.nodes[now.node.Name] = next
}

// setNode notes an existing node as the watch has brought it. It returns the rules that must be planned again.
func (v *view) setNode(now sighting) []Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	node := now.node
	var news []Request
	if before := v.nodes[node.Name]; before != nil && before.UID != node.UID {
		news = v.forget(node.Name)
	}
	before := v.nodes[node.Name]
	v.nodes[node.Name] = node
	if before != nil && !now.gap && sameForRules(before, node) {
		return news
	}
	for _, f := range v.rules {
		if f.update(before, now) {
			news = append(news, f.request())
		}
	}
	return news
}

// dropNode notes that a node is gone. It returns the rules that must be planned again.
func (v *view) dropNode(name string) []Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.forget(name)
}

// sameForRules reports whether no rule can see a difference between two versions of a node.
func sameForRules(a, b *corev1.Node) bool {
	same := func(x, y corev1.NodeCondition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
	}
	return maps.Equal(a.Labels, b.Labels) && apiequality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, same)
}

// update notes what a rule sees of a changed node, and reports whether that is news.
func (f *followed) update(before *corev1.Node, now sighting) bool {
	if before != nil {
		was := f.rule.facts(before)
		if was == f.rule.facts(now.node) && !f.rule.missed(before, now) {
			return false
		}
		if was.selected {
			f.selected--
		}
	}
	known := f.nodes[now.node.Name]
	delete(f.nodes, now.node.Name)
	f.see(known, before, now)
	return true
}

func (v *view) forget(name string) []Request {
	node, ok := v.nodes[name]
	if !ok {
		return nil
	}
	delete(v.nodes, name)
	var all []Request
	for _, f := range v.rules {
		if f.rule.facts(node).selected {
			f.selected--
		}
		delete(f.nodes, name)
		all = append(all, f.request())
	}
	return all
}

// requests returns all rules.
func (v *view) requests() []Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]Request, 0, len(v.rules))
	for _, f := range v.rules {
		all = append(all, f.request())
	}
	return all
}

// plan plans a rule, and returns what is then known about it. listed are the nodes that have its label according to the
// API server, whether the watch has brought that or not.
func (v *view) plan(uid types.UID, listed []string, now time.Time) (outcome, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, ok := v.rules[uid]
	if !ok {
		return outcome{}, false
	}
	maps.DeleteFunc(v.unanswered, func(at nodeTaint, add unansweredAdd) bool {
		node := v.nodes[at.node]
		return node == nil || newer(node, add.version) || !add.until.After(now)
	})
	unseen := map[string]bool{}
	for _, name := range listed {
		unseen[name] = true
	}
	var until time.Time // when the next unanswered write is certain
	for at, add := range v.unanswered {
		if at.taint == f.rule.text {
			unseen[at.node], until = true, instant.Next(until, add.until)
		}
	}
	planning := planning{outcome: outcome{rule: f.rule}, now: now}
	f.outcome = planning.plan(f.selected, f.nodes, unseen)
	f.outcome.clean = f.outcome.clean && until.IsZero()
	f.outcome.next = instant.Next(f.outcome.next, until)
	return f.outcome, true
}

// edit returns what must be written to a node that was read live so that it is as the newest plan of a rule wants it,
// and false if nothing must be written. Anything that the plan did not know, such as another node of that name, is left
// to the next plan. It adds the taint and the label only if admitted.
func (v *view) edit(r *rule, node *corev1.Node, may bool, now time.Time) (e apicall.NodeEdit, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, known := v.rules[r.object.UID], v.nodes[node.Name]
	if f == nil || f.rule != r || known == nil || known.UID != node.UID || r.frozen {
		return e, false
	}
	seen := f.nodes[node.Name]
	wanted := seen.wantedBy(r)
	if wanted && !may {
		return e, false
	}
	if e.Taints, ok = r.taints(node, seen, now); !ok {
		return e, false
	}
	e.Labels = r.labelChanges(node, wanted)
	return e, len(e.Labels) > 0 || len(e.Taints) != len(node.Spec.Taints)
}

// labelChanges returns which labels a node gets, and loses: it has the rule's own if it has the taint.
func (r *rule) labelChanges(node *corev1.Node, tainted bool) map[string]*string {
	changes := map[string]*string{}
	for _, label := range r.labels() {
		has, wants := node.Labels[label] == r.print, tainted && label == r.label
		switch {
		case has && !wants:
			changes[label] = nil
		case wants && !has:
			changes[label] = new(r.print)
		}
	}
	return changes
}

// taints returns the taints of a node that was read live, as the rule wants them, and false if it is not clear now what
// it wants. seen is what the newest plan knew of the node; nil if nothing.
func (r *rule) taints(node *corev1.Node, seen *ruleNode, now time.Time) (_ []corev1.Taint, ok bool) {
	is, taints := r.facts(node), slices.Clone(node.Spec.Taints)
	// A taint that was the rule's when it was seen still is, even if the plan no longer wants it; compare owns.
	owned := is.standing == r.text && (is.marked() || seen != nil && seen.owned)
	switch wanted := seen.wantedBy(r); {
	case wanted && owned, !wanted && !owned:
		return taints, true
	case wanted:
		taint := r.taint()
		taint.TimeAdded = &metav1.Time{Time: now}
		return append(taints, taint), is.matches() && is.standing == ""
	}
	taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.ToString() == r.text })
	return taints, !is.matches() || r.dryRun // otherwise the condition is back
}

// all returns the newest plans of all rules.
func (v *view) all() (all []outcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.rules {
		all = append(all, f.outcome)
	}
	return all
}

// noteRefusal notes that the API server definitely refused to taint a node. It is tried again later, and other nodes
// get the taint first.
func (v *view) noteRefusal(uid types.UID, node, why string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f, ok := v.rules[uid]; ok && f.nodes[node] != nil {
		f.nodes[node].refusal = &refusal{now, why}
	}
}

// noteUnanswered notes that it is not known whether a call, which has certainly ended by an instant, tainted a node.
func (v *view) noteUnanswered(node *corev1.Node, taint string, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unanswered[nodeTaint{node.Name, taint}] = unansweredAdd{node, until}
}

// newer compares two versions of an object, which the API server counts up (KEP-5504).
func newer(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
