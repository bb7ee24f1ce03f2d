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
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// book is what is known of the rules and of the nodes that they are concerned with. A change of a node costs what it
// changes: a rule is planned again only if it sees something else of the node, and only for the nodes that have its
// condition or its taint. It makes no calls and asks no clock. Safe for concurrent use.
type book struct {
	dryRun bool

	mu     sync.Mutex
	nodes  map[string]*known
	rules  map[types.UID]*planned // one that was made anew under its name is another
	doubts map[string]doubt
}

// known is the newest version of a node that this process has seen.
type known struct {
	*corev1.Node

	ahead bool // an answer of the API server brought it, and not the watch yet
}

// planned is a rule with its newest plan.
type planned struct {
	object   *v1alpha1.NodeTaintRule
	verdict  ruling
	rule     *rule
	gone     bool // there is no such rule any more
	selected int
	places   map[string]*place
	outcome  outcome
	dirty    bool // it has to be planned again
	stopped  bool // until then it taints no node
}

func newBook(dryRun bool) *book {
	return &book{dryRun: dryRun, nodes: map[string]*known{}, rules: map[types.UID]*planned{}, doubts: map[string]doubt{}}
}

// setRules notes which rules there are now. It reports whether that is news.
func (b *book) setRules(all []*v1alpha1.NodeTaintRule, seen verdict.Sight) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := false
	for uid, p := range b.rules {
		if !p.gone && !slices.ContainsFunc(all, func(o *v1alpha1.NodeTaintRule) bool { return o.UID == uid }) {
			object := p.object.DeepCopy()
			object.DeletionTimestamp = &metav1.Time{Time: seen.At}
			p.gone, news = true, true
			b.define(p, object, p.verdict, seen)
		}
	}
	for _, object := range all {
		news = b.setRule(object, judge(object, all), seen) || news
	}
	return news
}

func (b *book) setRule(object *v1alpha1.NodeTaintRule, ruled ruling, seen verdict.Sight) bool {
	p, ok := b.rules[object.UID]
	if ok && p.verdict == ruled && sameSpec(p.object, object) {
		return false
	}
	if !ok {
		p = &planned{}
		b.rules[object.UID] = p
	}
	b.define(p, object, ruled, seen)
	maps.DeleteFunc(b.rules, func(_ types.UID, old *planned) bool { // what it has left is the new one's
		return old.gone && old.rule.label == p.rule.label && old.rule.print == p.rule.print
	})
	return true
}

// define gives a rule its spec, and looks at all nodes with it.
func (b *book) define(p *planned, object *v1alpha1.NodeTaintRule, ruled ruling, seen verdict.Sight) {
	before := p.places
	if p.object != nil && !apiequality.Semantic.DeepEqual(p.object.Spec.Condition, object.Spec.Condition) {
		for _, known := range before { // of another condition nothing is known
			known.since = time.Time{}
		}
	}
	p.object, p.verdict, p.rule = object, ruled, newRule(object, ruled, b.dryRun)
	p.places, p.selected, p.dirty, p.stopped = map[string]*place{}, 0, true, true
	for name, node := range b.nodes {
		p.sees(before[name], nil, look{node: node.Node, seen: seen})
	}
}

// sees notes what a rule sees of a node, after what it knew of the node.
func (p *planned) sees(known *place, before *corev1.Node, now look) {
	is := p.rule.facts(now.node)
	if is.selected {
		p.selected++
	}
	next := &place{facts: is, changed: true}
	if known != nil {
		next.wanted, next.refusal = known.wanted, known.refusal
	}
	// Somebody may have taken the label away. The taint is the rule's all the same: it never went.
	next.owned = is.standing == p.rule.text && (is.labelled || known != nil && known.owned && known.wanted)
	if next.owned {
		next.refusal = nil
	}
	if !is.matches() && !is.labelled && !next.has(p.rule) {
		return
	}
	next.since = sinceWhen(p.rule, known, before, now)
	p.places[now.node.Name] = next
}

// brought notes what the watch has brought of a node that is there. It reports whether a rule has to be planned again.
func (b *book) brought(now look) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	is, ok := b.nodes[now.node.Name]
	switch {
	case !ok:
	case is.UID != now.node.UID:
		b.forget(now.node.Name)
	case is.ahead && newer(is.Node, now.node):
		return false
	}
	return b.put(now, false)
}

// went notes that a node has gone. It reports whether a rule has to be planned again.
func (b *book) went(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.forget(name)
}

// learned notes what an answer of the API server has brought of a node.
func (b *book) learned(node *corev1.Node, seen verdict.Sight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if is, ok := b.nodes[node.Name]; ok && is.UID == node.UID && newer(node, is.Node) {
		b.put(look{node: node, seen: seen}, true)
	}
}

// newer compares two versions of an object, which the API server counts up (KEP-5504).
func newer(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// put stores a node and lets the rules see it that see something else now.
func (b *book) put(now look, ahead bool) bool {
	node := now.node
	before := b.nodes[node.Name]
	b.nodes[node.Name] = &known{node, ahead}
	news := false
	if d, ok := b.doubts[node.Name]; ok && d.version != node.ResourceVersion {
		b.settle(node.Name, d)
		news = true
	}
	if before != nil && !now.gap && sameForRules(before.Node, node) {
		return news
	}
	for _, p := range b.rules {
		news = p.update(before, now) || news
	}
	return news
}

// sameForRules reports whether no rule can see a difference between two versions of a node.
func sameForRules(a, b *corev1.Node) bool {
	same := func(x, y corev1.NodeCondition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
	}
	return maps.Equal(a.Labels, b.Labels) && apiequality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, same)
}

func (p *planned) update(before *known, now look) bool {
	if before == nil {
		p.sees(nil, nil, now)
		p.dirty = true
		return true
	}
	was := p.rule.facts(before.Node)
	if was == p.rule.facts(now.node) && !p.rule.missed(before.Node, now) {
		return false
	}
	if was.selected {
		p.selected--
	}
	place := p.places[now.node.Name]
	delete(p.places, now.node.Name)
	p.sees(place, before.Node, now)
	p.dirty = true
	return true
}

func (b *book) forget(name string) bool {
	node, ok := b.nodes[name]
	if !ok {
		return false
	}
	for _, p := range b.rules {
		if p.rule.facts(node.Node).selected {
			p.selected--
		}
		delete(p.places, name)
		p.dirty = true
	}
	delete(b.nodes, name)
	delete(b.doubts, name)
	return true
}

// plan plans the rules that have to be, and returns the next instant at which that can be different by time alone;
// zero: never.
func (b *book) plan(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next time.Time
	for uid, p := range b.rules {
		if at := p.outcome.next; p.dirty || !at.IsZero() && !at.After(now) {
			planning := planning{rule: p.rule, now: now, blocked: b.blocked}
			p.outcome = planning.plan(p.selected, p.places, b.doubted(uid))
			p.dirty, p.stopped = false, false
		}
		next = timeline.Next(next, p.outcome.next)
		if p.gone && len(p.places) == 0 && len(b.doubted(uid)) == 0 {
			delete(b.rules, uid)
		}
	}
	return next
}

// blocked reports whether a node has a taint in the place of a rule's that is not about to be taken off or over.
func (b *book) blocked(name string, of *place) bool {
	if of.standing == "" {
		return false
	}
	for _, p := range b.rules {
		if other := p.places[name]; other != nil && other.owned && other.standing == of.standing && !p.rule.frozen {
			return false
		}
	}
	return true
}

// refused notes that the API server refused to have a node tainted for rules, for certain. They are tried again later,
// and others take their places below the bounds.
func (b *book) refused(e edit, why string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, uid := range e.adds {
		if p, ok := b.rules[uid]; ok && p.places[e.node.Name] != nil {
			p.places[e.node.Name].refusal, p.dirty = &refusal{now, why}, true
		}
	}
}

// stop keeps a rule from tainting nodes until it is planned again.
func (b *book) stop(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.rules[uid]; ok {
		p.stopped, p.dirty = true, true
	}
}
