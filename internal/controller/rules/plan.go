// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/instant"
)

// facts are what a rule sees of a node.
type facts struct {
	selected  bool
	holds     bool   // the condition has the status and reason of the rule
	labeled   bool   // the node's label says that it has the taint from this rule
	inherited bool   // a label says that it has the taint from a rule that this one continues
	standing  string // its taint of the rule's key and effect, as text, or empty if it has none
}

func (r *rule) facts(node *corev1.Node) facts {
	spec := &r.object.Spec
	f := facts{
		selected: r.selector.Matches(labels.Set(node.Labels)), labeled: node.Labels[r.label] == r.print,
		inherited: slices.ContainsFunc(r.inherits, func(label string) bool { return node.Labels[label] == r.print }),
	}
	if c := condition(node, spec.Condition.Type); c != nil {
		reasons := spec.Condition.Reasons
		f.holds = c.Status == spec.Condition.Status && (len(reasons) == 0 || slices.Contains(reasons, c.Reason))
	}
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; t.Key == spec.Taint.Key && t.Effect == spec.Taint.Effect {
			f.standing = t.ToString()
		}
	}
	return f
}

func (f facts) matches() bool { return f.selected && f.holds }

func (f facts) marked() bool { return f.labeled || f.inherited }

// ruleNode is a node that concerns a rule, because it has the condition, the rule's taint or its label.
type ruleNode struct {
	facts

	since   time.Time // since when the condition has held, or has not held
	owned   bool      // the node has the taint from this rule
	wanted  bool      // the newest plan wants it to have the taint
	refusal *refusal  // nil for none
}

// owns reports whether a node has the taint from a rule. known is what the rule knew of the node; nil if it knew
// nothing. If a client has removed the label, the taint is still the rule's, because it was there all along.
func (r *rule) owns(is facts, known *ruleNode) bool {
	remembered := known != nil && known.owned && known.wanted
	return is.standing == r.text && (is.marked() || remembered && !r.frozen)
}

// has reports whether the node counts as having the rule's taint. In a dry run, what it wanted counts as done.
func (n *ruleNode) has(r *rule) bool { return n.owned || r.dryRun && n.wanted }

// counts reports whether the node counts as tainted.
func (n *ruleNode) counts(r *rule) bool {
	if r.dryRun && !r.frozen {
		return n.wanted
	}
	return n.owned
}

// wantedBy reports whether the newest plan wants the rule's taint written to the node.
func (n *ruleNode) wantedBy(r *rule) bool { return n != nil && n.wanted && !r.dryRun }

// asPlanned reports whether the node is as the newest plan wants it.
func (n *ruleNode) asPlanned(r *rule) bool {
	if n.wantedBy(r) {
		return n.owned && n.labeled && !n.inherited
	}
	return r.frozen || !n.owned && !n.marked()
}

// refusal records when the API server last refused to taint a node, and its message.
type refusal struct {
	at  time.Time
	why string
}

// refusedFor is how long a node waits for the next try after its taint was refused.
const refusedFor = time.Minute

// sinceWhen returns since when the condition of a node has held, or has not held. A change that this process saw counts
// from that moment. lastTransitionTime, which depends on the node's clock and on the reporter, is used for conditions
// at first sight and for changes in a gap of the watch. Otherwise the condition continues, whatever lastTransitionTime
// says.
func (r *rule) sinceWhen(known *ruleNode, before *corev1.Node, is sighting) time.Time {
	holds := r.facts(is.node).holds
	switch {
	case known == nil || known.since.IsZero() || known.holds != holds:
		if before != nil && !is.gap && r.facts(before).holds != holds {
			return is.seen.At
		}
		return r.dated(is)
	case r.missed(before, is):
		return instant.Later(known.since, r.dated(is))
	}
	return known.since
}

// dated returns since when the condition has been as it is, according to its lastTransitionTime. That is about the
// status only. For a rule that names reasons it does not tell since when the reason has been there, so first sight
// counts.
func (r *rule) dated(is sighting) time.Time {
	c := condition(is.node, r.object.Spec.Condition.Type)
	if c == nil || c.LastTransitionTime.IsZero() ||
		len(r.object.Spec.Condition.Reasons) > 0 && c.Status == r.object.Spec.Condition.Status {
		return is.seen.At
	}
	return is.seen.Start(c.LastTransitionTime.Add(-time.Second)) // from the beginning of that second
}

// missed reports whether the condition changed and changed back in a gap of the watch.
func (r *rule) missed(before *corev1.Node, is sighting) bool {
	if before == nil || !is.gap {
		return false
	}
	was, now := condition(before, r.object.Spec.Condition.Type), condition(is.node, r.object.Spec.Condition.Type)
	if was == nil || now == nil {
		return was != now
	}
	return !was.LastTransitionTime.Equal(&now.LastTransitionTime)
}

// outcome is the result of a plan of a rule.
type outcome struct {
	rule *rule
	// selected, matching and held count nodes; tainted counts nodes that have the taint, and refused the held nodes that
	// the API server refuses to taint.
	selected, matching, tainted, held, refused int
	// example is the first refused node by name, and why is the reason of the refusal.
	example, why string
	// bound is the most nodes that may be tainted at once; -1 means any number.
	bound int
	// pending are the nodes that are not as the rule wants them, in order; adds means that one should get the taint
	// or the label.
	pending []string
	adds    bool
	// clean means that no node has the taint or is about to get it.
	clean bool
	// next is the next instant at which anything changes with time alone, or zero.
	next time.Time
}

// holding is the reason of the condition Holding.
func (o *outcome) holding() string {
	switch {
	case o.held > o.refused:
		return v1alpha1.ReasonMaxTainted
	case o.held > 0:
		return v1alpha1.ReasonRefused
	}
	return v1alpha1.ReasonNoNodeHeld
}

// candidate is a node that gets the taint if the bound allows it.
type candidate struct {
	*ruleNode

	name    string
	rank    int       // 0 if it may already have the taint, so that it already counts; otherwise 1
	refused time.Time // zero means never
}

// planning is a plan of a rule in the making.
type planning struct {
	outcome

	now time.Time
}

// plan marks which nodes should have the taint of a rule. A node gets the taint when the condition has held for long
// enough. The nodes that have had the condition longest come first, ties are broken by name, and refused nodes come
// last. No more nodes than the bound have the taint at once. It is removed when the condition has been over for long
// enough, and at once when the node is no longer selected. A taint of the same key and effect that is not the rule's is
// in the way. unseen are the nodes that have the taint, or may have it, although the watch has not shown it.
func (p *planning) plan(selected int, nodes map[string]*ruleNode, unseen map[string]bool) outcome {
	p.selected, p.bound = selected, -1
	var candidates []candidate
	tainted := maps.Clone(unseen) // what counts for the bound, without candidates
	for name, node := range nodes {
		ripe, has := p.ripe(node), node.has(p.rule)
		node.wanted = ripe && has
		if node.matches() {
			p.matching++
		}
		switch {
		case has && (ripe || !p.rule.dryRun):
			tainted[name] = true
		case ripe && !has:
			if c, may := p.candidate(name, node); may {
				if unseen[name] {
					c.rank = 0
				}
				delete(tainted, name)
				candidates = append(candidates, c)
			}
		}
	}
	p.choose(candidates, len(tainted))
	p.summarize(nodes)
	return p.outcome
}

// summarize notes how many nodes are tainted, and which are not as planned.
func (p *planning) summarize(nodes map[string]*ruleNode) {
	p.clean = true
	for name, node := range nodes {
		if node.counts(p.rule) {
			p.tainted++
		}
		p.clean = p.clean && !node.owned && !node.marked() && !node.wanted
		if !node.asPlanned(p.rule) {
			p.pending = append(p.pending, name)
			p.adds = p.adds || node.wantedBy(p.rule)
		}
	}
	slices.Sort(p.pending)
}

// ripe reports whether a node should have the taint, as far as time and the node itself decide.
func (p *planning) ripe(node *ruleNode) bool {
	switch {
	case p.rule.frozen || !node.selected:
		return false
	case node.has(p.rule):
		return node.holds || !p.over(node.since.Add(p.rule.object.Spec.ClearAfter.Duration))
	case !node.holds || node.standing != "":
		return false
	}
	// A taint that another client removed is added again at once.
	return node.marked() || p.over(node.since.Add(p.rule.object.Spec.After.Duration))
}

// candidate reports whether a node that waits for the taint may get it now. It counts a refusal.
func (p *planning) candidate(name string, node *ruleNode) (candidate, bool) {
	c := candidate{ruleNode: node, name: name, rank: 1}
	if node.refusal == nil {
		return c, true
	}
	p.held++
	p.refused++
	if p.example == "" || name < p.example {
		p.example, p.why = name, node.refusal.why
	}
	c.refused = node.refusal.at
	return c, p.over(c.refused.Add(refusedFor))
}

// choose takes as many candidates as the bound allows. Candidates that may already have the taint come first.
func (p *planning) choose(candidates []candidate, tainted int) {
	free := len(candidates)
	if most, bounded := p.rule.bound(p.selected); bounded {
		p.bound, free = most, min(free, max(most-tainted, 0))
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		byTime := cmp.Or(a.refused.Compare(b.refused), a.since.Compare(b.since))
		return cmp.Or(cmp.Compare(a.rank, b.rank), byTime, cmp.Compare(a.name, b.name))
	})
	for i, c := range candidates {
		c.wanted = i < free
		if !c.wanted && c.refused.IsZero() {
			p.held++
		}
	}
}

// over reports whether an instant has come. If not, it notes the instant as one to plan again at.
func (p *planning) over(at time.Time) bool {
	if !at.After(p.now) {
		return true
	}
	p.next = instant.Next(p.next, at)
	return false
}
