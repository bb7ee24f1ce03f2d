// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetaintrule

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/apicall"
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

// doubt is about a taint that may have been written: the call was not answered. While the node has the version that the
// call was bound to, the taint may still come, until the call has ended in the API server, too.
type doubt struct {
	version string
	until   time.Time
	rules   []types.UID
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
func (b *book) setRules(all []*v1alpha1.NodeTaintRule, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := false
	for uid, p := range b.rules {
		if !p.gone && !slices.ContainsFunc(all, func(o *v1alpha1.NodeTaintRule) bool { return o.UID == uid }) {
			object := p.object.DeepCopy()
			object.DeletionTimestamp = &metav1.Time{Time: now}
			p.gone, news = true, true
			b.define(p, object, p.verdict, now)
		}
	}
	for _, object := range all {
		news = b.setRule(object, judge(object, all), now) || news
	}
	return news
}

func (b *book) setRule(object *v1alpha1.NodeTaintRule, verdict ruling, now time.Time) bool {
	p, ok := b.rules[object.UID]
	if ok && p.verdict == verdict && sameSpec(p.object, object) {
		return false
	}
	if !ok {
		p = &planned{}
		b.rules[object.UID] = p
	}
	b.define(p, object, verdict, now)
	maps.DeleteFunc(b.rules, func(_ types.UID, old *planned) bool { // what it has left is the new one's
		return old.gone && old.rule.label == p.rule.label && old.rule.print == p.rule.print
	})
	return true
}

// define gives a rule its spec, and looks at all nodes with it.
func (b *book) define(p *planned, object *v1alpha1.NodeTaintRule, verdict ruling, now time.Time) {
	before := p.places
	if p.object != nil && p.object.Spec.Condition != object.Spec.Condition {
		for _, known := range before { // of another condition nothing is known
			known.since = time.Time{}
		}
	}
	p.object, p.verdict, p.rule = object, verdict, newRule(object, verdict, b.dryRun)
	p.places, p.selected, p.dirty, p.stopped = map[string]*place{}, 0, true, true
	for name, node := range b.nodes {
		p.sees(before[name], nil, node.Node, now)
	}
}

// sees notes what a rule sees of a node, after what it knew of the node.
func (p *planned) sees(known *place, before, after *corev1.Node, now time.Time) {
	is := p.rule.facts(after)
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
	next.since = sinceWhen(p.rule, known, before, after, is.holds, now)
	p.places[after.Name] = next
}

// brought notes what the watch has brought of a node: the node before, nil if it came, and after, nil if it went. It
// reports whether a rule has to be planned again because of it.
func (b *book) brought(before, after *corev1.Node, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if after == nil {
		return b.forget(before.Name)
	}
	is, ok := b.nodes[after.Name]
	switch {
	case !ok:
	case is.UID != after.UID:
		b.forget(after.Name)
	case is.ahead && newer(is.Node, after):
		return false
	}
	return b.put(after, false, now)
}

// learned notes what an answer of the API server has brought of a node.
func (b *book) learned(node *corev1.Node, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if is, ok := b.nodes[node.Name]; ok && is.UID == node.UID && newer(node, is.Node) {
		b.put(node, true, now)
	}
}

// newer compares two versions of an object, which the API server counts up (KEP-5504).
func newer(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// put stores a node and lets the rules see it that see something else now.
func (b *book) put(node *corev1.Node, ahead bool, now time.Time) bool {
	before := b.nodes[node.Name]
	b.nodes[node.Name] = &known{node, ahead}
	news := false
	if d, ok := b.doubts[node.Name]; ok && d.version != node.ResourceVersion {
		b.settle(node.Name, d)
		news = true
	}
	if before != nil && sameForRules(before.Node, node) {
		return news
	}
	for _, p := range b.rules {
		news = p.update(before, node, now) || news
	}
	return news
}

// sameForRules reports whether no rule can see a difference between two versions of a node.
func sameForRules(a, b *corev1.Node) bool {
	same := func(x, y corev1.NodeCondition) bool { return x.Type == y.Type && x.Status == y.Status }
	return maps.Equal(a.Labels, b.Labels) && apiequality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, same)
}

func (p *planned) update(before *known, node *corev1.Node, now time.Time) bool {
	if before == nil {
		p.sees(nil, nil, node, now)
		p.dirty = true
		return true
	}
	was := p.rule.facts(before.Node)
	if was == p.rule.facts(node) {
		return false
	}
	if was.selected {
		p.selected--
	}
	place := p.places[node.Name]
	delete(p.places, node.Name)
	p.sees(place, before.Node, node, now)
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
			p.outcome = plan(p.rule, p.selected, p.places, b.doubted(uid), b.blocked, now)
			p.dirty, p.stopped = false, false
		}
		next = earliest(next, p.outcome.next)
		if p.gone && len(p.places) == 0 && len(b.doubted(uid)) == 0 {
			delete(b.rules, uid)
		}
	}
	return next
}

// earliest returns the earlier of two instants, of which either may be none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
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

// edit is what has to be written of a node for its rules.
type edit struct {
	apicall.NodeEdit
	node *corev1.Node
	adds []types.UID // the rules whose taint comes with it
}

// pending returns the nodes that are not as the rules want them.
func (b *book) pending() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dryRun {
		return nil
	}
	var names []string
	for _, p := range b.rules {
		for name, place := range p.places {
			if !place.settled(p.rule) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// edit returns what has to be written of a node, decided from the newest that is known; false: nothing. only limits it
// to the taints of one rule, if it is not empty.
func (b *book) edit(name string, only types.UID, now time.Time) (edit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	node, ok := b.nodes[name]
	if !ok {
		return edit{}, false
	}
	wanting, leaving, planned := b.concerned(name)
	if !planned {
		return edit{}, false
	}
	e := edit{node: node.Node}
	e.Taints, e.Labels = slices.Clone(node.Spec.Taints), map[string]*string{}
	for _, p := range leaving {
		e.leave(p, wanting, only)
	}
	for _, p := range wanting {
		if p.places[name].owned || p.may(only) {
			e.add(p, now)
		}
	}
	return e, len(e.Labels) > 0 || len(e.adds) > 0
}

// concerned returns the rules that want their taint on a node, and those that want it off. planned is false if
// something has changed for one of them since its plan.
func (b *book) concerned(name string) (wanting, leaving []*planned, planned bool) {
	for _, p := range b.rules {
		place := p.places[name]
		switch {
		case place == nil, p.rule.frozen:
		case place.changed: // the next plan decides
			return nil, nil, false
		case place.wanted && !p.rule.onlyReports:
			wanting = append(wanting, p)
		case place.owned || place.labelled:
			leaving = append(leaving, p)
		}
	}
	return wanting, leaving, true
}

// may reports whether a rule may taint a node in an edit that is limited to the taints of one rule, if it is not empty.
func (p *planned) may(only types.UID) bool {
	return !p.stopped && (only == "" || only == p.object.UID)
}

// leave takes a rule's taint off, and its label. If another rule wants the same taint, only the owner changes.
func (e *edit) leave(p *planned, wanting []*planned, only types.UID) {
	heir := slices.IndexFunc(wanting, func(other *planned) bool { return other.rule.text == p.rule.text })
	if heir >= 0 && !wanting[heir].may(only) {
		return // until that can take over
	}
	place := p.places[e.node.Name]
	if place.labelled {
		e.Labels[p.rule.label] = nil
	}
	if place.owned && heir < 0 {
		e.Taints = slices.DeleteFunc(e.Taints, func(t corev1.Taint) bool { return t.ToString() == p.rule.text })
	}
}

// add puts a rule's taint on, and its label.
func (e *edit) add(p *planned, now time.Time) {
	place := p.places[e.node.Name]
	if !place.labelled {
		e.Labels[p.rule.label] = new(p.rule.print)
	}
	if place.owned {
		return
	}
	e.adds = append(e.adds, p.object.UID)
	if !slices.ContainsFunc(e.Taints, func(t corev1.Taint) bool { return t.ToString() == p.rule.text }) {
		next := p.rule.taint()
		next.TimeAdded = &metav1.Time{Time: now}
		e.Taints = append(e.Taints, next)
	}
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

// unanswered notes that it is not known whether taints were written, by a call that has ended by an instant for
// certain.
func (b *book) unanswered(e edit, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	is, ok := b.nodes[e.node.Name]
	if !ok || is.UID != e.node.UID || is.ResourceVersion != e.node.ResourceVersion || len(e.adds) == 0 {
		return
	}
	d := doubt{version: e.node.ResourceVersion, until: until, rules: e.adds}
	if before, ok := b.doubts[e.node.Name]; ok {
		d.rules = slices.Concat(before.rules, e.adds)
	}
	b.doubts[e.node.Name] = d
}

// doubted returns the nodes that may have a rule's taint though they do not show it.
func (b *book) doubted(uid types.UID) []string {
	var names []string
	for name, d := range b.doubts {
		if slices.Contains(d.rules, uid) {
			names = append(names, name)
		}
	}
	return names
}

// overdue returns the nodes in doubt whose call has ended by now, and when the next does.
func (b *book) overdue(now time.Time) (names []string, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, d := range b.doubts {
		if d.until.After(now) {
			next = earliest(next, d.until)
		} else {
			names = append(names, name)
		}
	}
	return names, next
}

// believe notes that a live read has shown a node as it is known: what was in doubt was not done.
func (b *book) believe(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d, ok := b.doubts[name]; ok {
		b.settle(name, d)
	}
}

func (b *book) settle(name string, d doubt) {
	delete(b.doubts, name)
	for _, uid := range d.rules {
		if p, ok := b.rules[uid]; ok {
			p.dirty = true
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

// page is what the book says of a rule.
type page struct {
	object  *v1alpha1.NodeTaintRule
	verdict ruling
	rule    *rule
	outcome outcome
	clean   bool // no node has the taint, can have it, or is about to get it
}

// pages returns what the book says of the rules that there are.
func (b *book) pages() []page {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []page
	for uid, p := range b.rules {
		if p.gone {
			continue
		}
		one := page{object: p.object, verdict: p.verdict, rule: p.rule, outcome: p.outcome, clean: len(b.doubted(uid)) == 0}
		for _, place := range p.places {
			one.clean = one.clean && !place.owned && !place.labelled && !place.wanted
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b page) int { return strings.Compare(a.rule.name, b.rule.name) })
	return all
}
