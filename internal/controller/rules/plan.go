// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// facts are what a rule knows about a node.
type facts struct {
	selected bool
	holds    bool   // the condition has the status and reason of the rule
	labeled  bool   // the node's label says that it has the taint from this rule
	standing string // its taint of the rule's key and effect, as text, or empty if it has none
}

func (r *rule) facts(node *corev1.Node) facts {
	f := facts{selected: r.selector.Matches(labels.Set(node.Labels)), labeled: node.Labels[r.label] == r.print}
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
	gap  bool // versions of the node may have been missed since the last look
}

func (f facts) matches() bool { return f.selected && f.holds }

// place is a node that concerns a rule, because it has the condition, the rule's taint or its label.
type place struct {
	facts

	since   time.Time // since when the condition has held, or has not held
	owned   bool      // the node has the taint from this rule
	wanted  bool      // the newest plan wants it to have the taint
	refusal *refusal  // nil for none
}

// owns reports whether a node has the taint from a rule. known is what the rule knew of the node; nil if it knew
// nothing. If a client has removed the label, the taint is still the rule's, because it was there all along.
func (r *rule) owns(is facts, known *place) bool {
	return is.standing == r.text && (is.labeled || known != nil && known.owned && known.wanted)
}

// has reports whether the node counts as having the rule's taint. For a rule that writes nothing, what it wanted counts
// as done.
func (p *place) has(r *rule) bool { return p.owned || r.asIf && p.wanted }

// counts reports whether the node counts as tainted.
func (p *place) counts(r *rule) bool {
	if r.asIf && !r.frozen {
		return p.wanted
	}
	return p.owned
}

// wantedBy reports whether the newest plan wants the rule's taint written to the node.
func (p *place) wantedBy(r *rule) bool { return p != nil && p.wanted && !r.onlyReports }

// asPlanned reports whether the node is as the newest plan wants it.
func (p *place) asPlanned(r *rule) bool {
	if p.wantedBy(r) {
		return p.owned && p.labeled
	}
	return r.frozen || !p.owned && !p.labeled
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

// dated returns since when the condition has been as it is, according to its lastTransitionTime. That is about the
// status only. For a rule that names reasons it does not tell since when the reason has been there, so first sight
// counts.
func (r *rule) dated(is look) time.Time {
	c := condition(is.node, r.spec.Condition.Type)
	if c == nil || c.LastTransitionTime.IsZero() ||
		len(r.spec.Condition.Reasons) > 0 && c.Status == r.spec.Condition.Status {
		return is.seen.At
	}
	return is.seen.Start(c.LastTransitionTime.Add(-time.Second)) // from the beginning of that second
}

// missed reports whether the condition changed and changed back in a gap of the watch.
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

// outcome is the result of a plan of a rule.
type outcome struct {
	// selected, matching and held count nodes; tainted counts nodes that have the taint, and refused the held nodes that
	// the API server refuses to taint.
	selected, matching, tainted, held, refused int
	// example is the first refused node by name, and why is the reason of the refusal.
	example, why string
	// bound is the most nodes that may be tainted at once; -1 means any number.
	bound int
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
	*place

	name    string
	rank    int       // 0 if it may already have the taint, so that its place is taken; otherwise 1
	refused time.Time // zero means never
}

// planning is a plan of a rule in the making.
type planning struct {
	outcome

	rule *rule
	now  time.Time
	// blocked reports whether a node has a taint of the same key and effect with another owner.
	blocked func(name string, of *place) bool
}

// plan marks, in the places, which nodes should have the taint of a rule. A node gets the taint when the condition has
// held for long enough. The nodes that have had the condition longest come first, ties are broken by name, and refused
// nodes come last. No more nodes than the bound have the taint at once. It is removed when the condition has been over
// for long enough, and at once when the node is no longer selected. unseen are the nodes that have the taint, or may
// have it, although the watch has not shown it.
func (p *planning) plan(selected int, places map[string]*place, unseen []string) outcome {
	p.outcome = outcome{selected: selected, bound: -1}
	var candidates []candidate
	taken := 0 // places below the bound, taken by nodes that are not candidates
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

// ripe reports whether a node should have the taint, as far as time and the node itself decide.
func (p *planning) ripe(name string, node *place) bool {
	switch {
	case p.rule.frozen || !node.selected:
		return false
	case node.has(p.rule):
		return node.holds || !p.over(node.since.Add(p.rule.spec.ClearAfter.Duration))
	case !node.holds || p.blocked(name, node):
		return false
	}
	// A taint that another client removed is added again at once.
	return node.labeled && node.standing == "" || p.over(node.since.Add(p.rule.spec.After.Duration))
}

// candidate reports whether a node that waits for the taint may get it now. It counts a refusal.
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

// reserve puts candidates that may already have the taint before the others, because their places are taken. It returns
// how many more places are taken by unseen nodes that are not candidates.
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

// choose takes as many candidates as the bound leaves places free. Candidates that may already have the taint have a
// place.
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

// over reports whether an instant has come. If not, it notes the instant as one to plan again at.
func (p *planning) over(at time.Time) bool {
	if !at.After(p.now) {
		return true
	}
	p.next = instant.Next(p.next, at)
	return false
}
