// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/custom"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// view is what the watches have shown of the rules and of the nodes that concern them. A change of a node costs what it
// changes: only rules for which it makes a difference are planned again, and only for the nodes that have their
// condition or their taint. It makes no calls and reads no clock. It is safe for concurrent use.
type view struct {
	dryRun bool

	mu    sync.Mutex
	nodes map[string]*corev1.Node
	rules map[types.UID]*followed // a rule that was recreated under its name is another rule
}

// followed is a rule with its newest plan.
type followed struct {
	object     *v1alpha1.NodeTaintRule
	verdict    ruling
	rule       *rule
	gone       bool // the rule no longer exists
	selected   int
	places     map[string]*place
	outcome    outcome
	unanswered map[string]unanswered // by node
}

// unanswered is a write of the rule's taint without an answer. As long as the node has the version that is the
// precondition of the write, the taint may still be added, until the call has ended in the API server.
type unanswered struct {
	version metav1.Object
	until   time.Time
}

// planned is what is known about a rule as of its newest plan.
type planned struct {
	object  *v1alpha1.NodeTaintRule
	verdict ruling
	rule    *rule
	gone    bool
	outcome outcome
	clean   bool      // no node has the taint, can have it, or is about to get it
	adds    bool      // a node should get the taint
	pending []string  // the nodes that are not as the rule wants them
	next    time.Time // when anything changes with time alone, or zero
}

func newView(dryRun bool) *view {
	return &view{dryRun: dryRun, nodes: map[string]*corev1.Node{}, rules: map[types.UID]*followed{}}
}

// setRules notes which rules exist now. All must then be planned again, because one rule may take what another leaves.
func (v *view) setRules(all []*v1alpha1.NodeTaintRule, seen verdict.Sight) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for uid, f := range v.rules {
		if !f.gone && !slices.ContainsFunc(all, func(o *v1alpha1.NodeTaintRule) bool { return o.UID == uid }) {
			object := f.object.DeepCopy()
			object.DeletionTimestamp = &metav1.Time{Time: seen.At}
			f.gone = true
			v.define(f, object, f.verdict, seen)
		}
	}
	for _, object := range all {
		v.setRule(object, judge(object, all), seen)
	}
}

func (v *view) setRule(object *v1alpha1.NodeTaintRule, ruled ruling, seen verdict.Sight) {
	f, ok := v.rules[object.UID]
	if ok && f.verdict == ruled && custom.SameSpec(f.object, object) {
		return
	}
	if !ok {
		f = &followed{unanswered: map[string]unanswered{}}
		v.rules[object.UID] = f
	}
	v.define(f, object, ruled, seen)
	maps.DeleteFunc(v.rules, func(_ types.UID, old *followed) bool { // what it has left belongs to the new one
		return old.gone && old.rule.label == f.rule.label && old.rule.print == f.rule.print
	})
}

// define sets the spec of a rule, and looks at all nodes again.
func (v *view) define(f *followed, object *v1alpha1.NodeTaintRule, ruled ruling, seen verdict.Sight) {
	before := f.places
	if f.object != nil && !apiequality.Semantic.DeepEqual(f.object.Spec.Condition, object.Spec.Condition) {
		for _, known := range before { // nothing is known about another condition
			known.since = time.Time{}
		}
	}
	f.object, f.verdict, f.rule = object, ruled, newRule(object, ruled, v.dryRun)
	f.places, f.selected = map[string]*place{}, 0
	for name, node := range v.nodes {
		f.sees(before[name], nil, look{node: node, seen: seen})
	}
}

func (f *followed) request() Request { return Request{Name: f.object.Name, UID: f.object.UID} }

// sees notes what a rule sees of a node, given what it knew about the node.
func (f *followed) sees(known *place, before *corev1.Node, now look) {
	is := f.rule.facts(now.node)
	if is.selected {
		f.selected++
	}
	next := &place{facts: is}
	if known != nil {
		next.wanted, next.refusal = known.wanted, known.refusal
	}
	next.owned = f.rule.owns(is, known)
	if next.owned {
		next.refusal = nil
	}
	if !is.matches() && !is.labeled && !next.has(f.rule) {
		return
	}
	next.since = sinceWhen(f.rule, known, before, now)
	f.places[now.node.Name] = next
}

// brought notes an existing node as the watch has brought it. It returns the rules that must be planned again.
func (v *view) brought(now look) []Request {
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

// went notes that a node is gone. It returns the rules that must be planned again.
func (v *view) went(name string) []Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.forget(name)
}

// newer compares two versions of an object, which the API server counts up (KEP-5504).
func newer(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
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
func (f *followed) update(before *corev1.Node, now look) bool {
	if before == nil {
		f.sees(nil, nil, now)
		return true
	}
	was := f.rule.facts(before)
	if was == f.rule.facts(now.node) && !f.rule.missed(before, now) {
		return false
	}
	if was.selected {
		f.selected--
	}
	place := f.places[now.node.Name]
	delete(f.places, now.node.Name)
	f.sees(place, before, now)
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
		delete(f.places, name)
		delete(f.unanswered, name)
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

// plan plans a rule, and its rivals, to which it may leave its nodes. It returns what is known about the rule
// afterwards. listed are the nodes that have its label according to the API server, whether the watch has brought that
// or not.
func (v *view) plan(uid types.UID, listed []string, now time.Time) (planned, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, ok := v.rules[uid]
	if !ok {
		return planned{}, false
	}
	for _, other := range v.rules {
		if other != f && other.rule.rivals(f.rule) {
			v.planOne(other, nil, now)
		}
	}
	v.planOne(f, listed, now)
	p := f.planned()
	if f.gone && p.clean && len(f.places) == 0 {
		delete(v.rules, uid)
	}
	return p, true
}

func (v *view) planOne(f *followed, listed []string, now time.Time) {
	maps.DeleteFunc(f.unanswered, func(name string, u unanswered) bool {
		node := v.nodes[name]
		return node == nil || newer(node, u.version) || !u.until.After(now)
	})
	unseen := slices.AppendSeq(slices.Clone(listed), maps.Keys(f.unanswered))
	slices.Sort(unseen)
	planning := planning{rule: f.rule, now: now, blocked: v.blocked}
	f.outcome = planning.plan(f.selected, f.places, slices.Compact(unseen))
}

func (f *followed) planned() planned {
	p := planned{
		object: f.object, verdict: f.verdict, rule: f.rule, gone: f.gone, outcome: f.outcome,
		clean: len(f.unanswered) == 0, next: f.outcome.next,
	}
	for name, place := range f.places {
		p.clean = p.clean && !place.owned && !place.labeled && !place.wanted
		if !place.asPlanned(f.rule) {
			p.pending = append(p.pending, name)
			p.adds = p.adds || place.wantedBy(f.rule) && !place.owned
		}
	}
	for _, u := range f.unanswered {
		p.next = instant.Next(p.next, u.until)
	}
	slices.Sort(p.pending)
	return p
}

// all returns what is known about the existing rules.
func (v *view) all() []planned {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []planned
	for _, f := range v.rules {
		if !f.gone {
			all = append(all, f.planned())
		}
	}
	slices.SortFunc(all, func(a, b planned) int { return strings.Compare(a.rule.name, b.rule.name) })
	return all
}

// blocked reports whether a node has a taint in the way of a rule's that is not about to be removed or taken over.
func (v *view) blocked(name string, of *place) bool {
	if of.standing == "" {
		return false
	}
	for _, f := range v.rules {
		if other := f.places[name]; other != nil && other.owned && other.standing == of.standing && !f.rule.frozen {
			return false
		}
	}
	return true
}

// refused notes that the API server definitely refused to taint a node. It is tried again later, and other nodes take
// its place below the bound.
func (v *view) refused(uid types.UID, node, why string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f, ok := v.rules[uid]; ok && f.places[node] != nil {
		f.places[node].refusal = &refusal{now, why}
	}
}

// lost notes that it is not known whether a node was tainted by a call that has certainly ended by an instant.
func (v *view) lost(uid types.UID, node *corev1.Node, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f, ok := v.rules[uid]; ok {
		f.unanswered[node.Name] = unanswered{node, until}
	}
}
