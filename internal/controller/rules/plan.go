// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// facts are what a rule knows of a node.
type facts struct {
	selected bool
	holds    bool   // the condition has the status, and a reason, that brings the taint
	labelled bool   // the node's label says that it has the taint from this rule
	standing string // its taint of the rule's key and effect, as text, or empty if it has none
}

func (r *rule) facts(node *corev1.Node) facts {
	f := facts{selected: r.selector.Matches(labels.Set(node.Labels)), labelled: node.Labels[r.label] == r.print}
	if c := condition(node, r.spec.Condition.Type); c != nil {
		reasons := r.spec.Condition.Reasons
		f.holds = c.Status == r.spec.Condition.Status && (len(reasons) == 0 || slices.Contains(reasons, c.Reason))
	}
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; t.Key == r.spec.Taint.Key && t.Effect == r.spec.Taint.Effect {
			f.standing = t.ToString()
		}
	}
	return f
}

// look is how this process sees a node.
type look struct {
	node *corev1.Node
	seen verdict.Sight
	gap  bool // versions of the node may have been missed since the look before
}

func (f facts) matches() bool { return f.selected && f.holds }

// place is a node that a rule is concerned with: the node has the condition, or the rule's taint.
type place struct {
	facts

	since   time.Time // since when the condition holds, or does not
	owned   bool      // the node has the taint from this rule
	wanted  bool      // it is to have it, by the newest plan
	refusal *refusal  // nil: none
}

// owns reports whether a node has the taint from a rule that knew the node as a place, which is nil if it did not.
// Somebody may have taken the label away: the taint is still the rule's, because it never went.
func (r *rule) owns(is facts, known *place) bool {
	return is.standing == r.text && (is.labelled || known != nil && known.owned && known.wanted)
}

// has reports whether the node counts as one with the rule's taint. Of a rule that writes nothing, what it wanted
// counts as done.
func (p *place) has(r *rule) bool { return p.owned || r.asIf && p.wanted }

// counts reports whether the node counts as tainted.
func (p *place) counts(r *rule) bool {
	if r.asIf && !r.frozen {
		return p.wanted
	}
	return p.owned
}

// wantedBy reports whether the node is to have the rule's taint written, by the newest plan.
func (p *place) wantedBy(r *rule) bool { return p != nil && p.wanted && !r.onlyReports }

// asPlanned reports whether the node is as the newest plan wants it.
func (p *place) asPlanned(r *rule) bool {
	if p.wantedBy(r) {
		return p.owned && p.labelled
	}
	return r.frozen || !p.owned && !p.labelled
}

// refusal is when the API server last refused to have a node tainted, and what it said.
type refusal struct {
	at  time.Time
	why string
}

// refusedFor is how long a node whose taint was refused waits for the next try.
const refusedFor = time.Minute

// sinceWhen returns since when the condition of a node holds, or does not. What this process saw change counts from
// its sight. lastTransitionTime, which the node's clock and its reporter decide, serves for what was so at first sight,
// and for what changed in a gap of the watch. Otherwise the condition goes on, whatever lastTransitionTime says.
func sinceWhen(r *rule, known *place, before *corev1.Node, is look) time.Time {
	holds := r.facts(is.node).holds
	goesOn := known != nil && !known.since.IsZero() && known.holds == holds
	if !goesOn {
		if before != nil && !is.gap && r.facts(before).holds != holds {
			return is.seen.At
		}
		return r.dated(is)
	}
	if dated := r.dated(is); r.missed(before, is) && dated.After(known.since) {
		return dated
	}
	return known.since
}

// dated returns since when the condition is as it is according to its lastTransitionTime. That is about the status: of
// a rule that names reasons it does not tell since when the reason is the one that is there, so the sight serves.
func (r *rule) dated(is look) time.Time {
	c := condition(is.node, r.spec.Condition.Type)
	if c == nil || c.LastTransitionTime.IsZero() ||
		len(r.spec.Condition.Reasons) > 0 && c.Status == r.spec.Condition.Status {
		return is.seen.At
	}
	return is.seen.Start(c.LastTransitionTime.Add(-time.Second)) // from the beginning of that second
}

// missed reports whether the condition changed in a gap of the watch, though it is as it was before.
func (r *rule) missed(before *corev1.Node, is look) bool {
	if before == nil || !is.gap {
		return false
	}
	was, now := condition(before, r.spec.Condition.Type), condition(is.node, r.spec.Condition.Type)
	if was == nil || now == nil {
		return was != now
	}
	return !was.LastTransitionTime.Equal(&now.LastTransitionTime)
}

// outcome is what a plan of a rule comes to.
type outcome struct {
	// selected, matching and held count nodes; tainted those that have the taint, refused those of the held that the
	// API server refuses to have tainted.
	selected, matching, tainted, held, refused int
	// example is the first of the refused by name, and why is the reason of its refusal.
	example, why string
	// bound is the most that may be tainted at once; -1: any number.
	bound int
	// next is the next instant at which anything changes by time alone, or zero.
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

// candidate is a node that is to have the taint if the bound allows it.
type candidate struct {
	*place

	name    string
	rank    int       // 0: it may have the taint already, so its place is taken; 1: otherwise
	refused time.Time // zero: never
}

// planning is a plan of a rule in the making.
type planning struct {
	outcome

	rule *rule
	now  time.Time
	// blocked reports whether a node has another's taint of the same key and effect.
	blocked func(name string, of *place) bool
}

// plan says which nodes are to have the taint of a rule, in the places themselves. The taint comes when the condition
// has held for long enough: to the nodes that have had it longest first, then by name, and to no more than the bound at
// once; those that were refused come last. It goes when the condition has been over for long enough, and at once when
// the node is no longer selected. unseen are the
// nodes that have the taint, or may have it, though the watch has not shown it.
func (p *planning) plan(selected int, places map[string]*place, unseen []string) outcome {
	p.outcome = outcome{selected: selected, bound: -1}
	var candidates []candidate
	taken := 0 // of the places below the bound, by nodes that are no candidates
	for name, node := range places {
		ripe, has := p.ripe(name, node), node.has(p.rule)
		node.wanted = ripe && has
		if node.matches() {
			p.matching++
		}
		if has && (ripe || !p.rule.asIf) {
			taken++
		}
		if ripe && !has {
			if c, may := p.candidate(name, node); may {
				candidates = append(candidates, c)
			}
		}
	}
	p.choose(candidates, taken+reserve(candidates, places, unseen))
	for _, node := range places {
		if node.counts(p.rule) {
			p.tainted++
		}
	}
	return p.outcome
}

// ripe reports whether a node is to have the taint, as far as time and the node itself decide.
func (p *planning) ripe(name string, node *place) bool {
	switch {
	case p.rule.frozen || !node.selected:
		return false
	case node.has(p.rule):
		return node.holds || !p.over(node.since.Add(p.rule.spec.ClearAfter.Duration))
	case !node.holds || p.blocked(name, node):
		return false
	}
	// A taint that somebody else took off comes again at once.
	return node.labelled && node.standing == "" || p.over(node.since.Add(p.rule.spec.After.Duration))
}

// candidate reports whether a node that waits for the taint may be given it now. It counts a refusal.
func (p *planning) candidate(name string, node *place) (candidate, bool) {
	c := candidate{place: node, name: name, rank: 1}
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

// reserve puts the candidates that may have the taint already before the others: their places are taken. It returns how
// many more places are, by unseen nodes that are no candidates.
func reserve(candidates []candidate, places map[string]*place, unseen []string) int {
	taken := 0
	for _, name := range unseen {
		i := slices.IndexFunc(candidates, func(c candidate) bool { return c.name == name })
		if i >= 0 {
			candidates[i].rank = 0
		} else if node := places[name]; node == nil || !node.owned {
			taken++
		}
	}
	return taken
}

// choose takes as many candidates as the bound leaves free places. Those that may have the taint already have theirs.
func (p *planning) choose(candidates []candidate, taken int) {
	free := len(candidates)
	if most, bounded := p.rule.bound(p.selected); bounded {
		p.bound, free = most, min(free, max(most-taken, 0))
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

// over reports whether an instant has come, and otherwise notes that it will.
func (p *planning) over(at time.Time) bool {
	if !at.After(p.now) {
		return true
	}
	p.next = timeline.Next(p.next, at)
	return false
}
