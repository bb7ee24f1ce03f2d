// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// ruleMemory is what has to be known of a rule's past to plan it. It is never modified.
type ruleMemory struct {
	// claims are the nodes that are to have the taint, or that had to until a moment ago.
	claims map[string]claim
	// sightings are for the nodes whose condition does not say by itself since when it is as it is.
	sightings map[string]sighting
	// refusals are of nodes that cannot be tainted. They do not keep others from their place below the bound.
	refusals map[string]refusal
}

// claim is what a rule wants of a node.
type claim struct {
	uid types.UID
	// wanted: it is to have the taint. Otherwise it is to lose it, and a write of the taint may still be under way.
	wanted bool
}

// sighting is when this process first saw that a node was in a state.
type sighting struct {
	uid        types.UID
	matching   bool
	transition time.Time // as the condition says; zero: it does not
	at         time.Time
}

// refusal is when the API server last refused to have a node tainted, and how it said so.
type refusal struct {
	uid types.UID
	at  time.Time
	why string
}

// refusedFor is how long a node that was refused has to wait for its next try.
const refusedFor = time.Minute

// rulePlan is what a rule wants of all nodes at an instant.
type rulePlan struct {
	ruleMemory

	// selected, matching and held count nodes; tainted those that have the taint, refused those of the held that the
	// API server refused to have tainted.
	selected, matching, tainted, held, refused int
	// example is the first of the refused by name, and why what was said of it.
	example, why string
	// bound is the most that may be tainted at once; -1: any number.
	bound int
	// next is the next instant at which anything changes by time alone; zero: none.
	next time.Time
}

func newPlan() *rulePlan {
	return &rulePlan{ruleMemory: ruleMemory{claims: map[string]claim{}, sightings: map[string]sighting{}, refusals: map[string]refusal{}}, bound: -1}
}

// candidate is a node that had the condition for long enough, and has no taint yet.
type candidate struct {
	node    *corev1.Node
	since   time.Time
	refused time.Time // before; zero: never
}

// planRule says which nodes are to have the taint of a rule. A node's taint comes when it has had the condition for
// long enough, those that have had it longest first and then by name, and no more than the bound have it at
// once. One that was refused comes last. It goes when the condition has been over for long enough, or at once when the node is no longer selected.
// A taint that had not arrived when the condition was over does not come.
func planRule(r *rule, nodes []*corev1.Node, memory ruleMemory, now time.Time) rulePlan {
	p := newPlan()
	if r.frozen {
		p.freeze(r, nodes, memory)
		return *p
	}
	var candidates []candidate
	for _, node := range nodes {
		since, ripe := p.place(r, node, memory, now)
		if !ripe {
			continue
		}
		refused := p.turnedDown(node, memory)
		if refused.IsZero() || p.over(refused.Add(refusedFor), now) {
			candidates = append(candidates, candidate{node, since, refused})
		}
	}
	free := len(candidates)
	if most, bounded := r.bound(p.selected); bounded {
		if len(p.claims) > most {
			p.yield(r, nodes)
		}
		p.bound, free = most, min(free, max(most-len(p.claims), 0))
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(a.refused.Compare(b.refused), a.since.Compare(b.since), cmp.Compare(a.node.Name, b.node.Name))
	})
	for i, c := range candidates {
		if i < free {
			p.claims[c.node.Name] = claim{uid: c.node.UID, wanted: true}
		} else if c.refused.IsZero() {
			p.held++
		}
	}
	if r.asIf {
		p.tainted = len(p.claims)
	}
	return *p
}

// freeze claims nothing for a rule that is frozen, and gives up the choices of nodes that are not tainted yet. What the
// annotations of nodes say stays.
func (p *rulePlan) freeze(r *rule, nodes []*corev1.Node, memory ruleMemory) {
	for _, node := range nodes {
		owned, _ := standing(r, node)
		if owned && hasTaint(node, r) {
			p.tainted++
		}
		if _, claimed := claimOf(memory, node); claimed && !owned && !r.asIf {
			p.claims[node.Name] = claim{uid: node.UID}
		}
	}
}

// place counts a node and claims what does not depend on others. It returns whether the node is a candidate,
// and since when it has had the condition.
func (p *rulePlan) place(r *rule, node *corev1.Node, memory ruleMemory, now time.Time) (time.Time, bool) {
	before, claimed := claimOf(memory, node)
	owned, foreign := standing(r, node)
	if owned && !r.asIf {
		p.tainted++
	}
	has := owned || claimed && before.wanted
	leaves := func() {
		if (owned || claimed) && !r.asIf {
			p.claims[node.Name] = claim{uid: node.UID}
		}
	}
	if !r.selects(node) {
		leaves()
		return time.Time{}, false
	}
	p.selected++
	matching := r.matches(node)
	if matching {
		p.matching++
	}
	stripped := claimed && before.wanted && hasTaint(node, r) // somebody took the annotation away
	if foreign && !stripped {
		return time.Time{}, false
	}
	since := p.since(r, node, matching, has, memory, now)
	switch {
	case has && matching:
		p.claims[node.Name] = claim{uid: node.UID, wanted: true}
		if !owned { // it is tried again
			p.turnedDown(node, memory)
		}
	case has && (owned || r.asIf):
		if p.over(since.Add(r.spec.ClearAfter.Duration), now) {
			leaves()
			return time.Time{}, false
		}
		p.claims[node.Name] = claim{uid: node.UID, wanted: true}
	case claimed && !r.asIf: // until it is known that no write of the taint is under way
		leaves()
	case matching && p.over(since.Add(r.spec.After.Duration), now):
		return since, true
	}
	return time.Time{}, false
}

// yield gives up the choices whose taint is not on the node, since more are claimed than the bound allows: it was lowered.
// They are made anew once it is known that no write of a taint is under way. In a dry run what is chosen has the taint.
func (p *rulePlan) yield(r *rule, nodes []*corev1.Node) {
	for _, node := range nodes {
		chosen, claimed := p.claims[node.Name]
		waits := chosen.wanted || r.selects(node) && r.matches(node)
		if !claimed || !waits || r.asIf || hasTaint(node, r) {
			continue
		}
		p.claims[node.Name] = claim{uid: node.UID}
		if _, counted := p.refusals[node.Name]; !counted {
			p.held++
		}
	}
}

// hasTaint reports whether a node has exactly the taint of a rule, whoever set it.
func hasTaint(node *corev1.Node, r *rule) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.ToString() == r.text })
}

// turnedDown returns when a node that has no taint yet was last refused, zero if it was not. It counts it, and goes on
// knowing it until the node has the taint.
func (p *rulePlan) turnedDown(node *corev1.Node, memory ruleMemory) time.Time {
	known, ok := memory.refusals[node.Name]
	if !ok || known.uid != node.UID {
		return time.Time{}
	}
	p.refusals[node.Name] = known
	p.held++
	p.refused++
	if p.example == "" || node.Name < p.example {
		p.example, p.why = node.Name, known.why
	}
	return known.at
}

// holding is the reason of the condition Holding.
func (p *rulePlan) holding() string {
	switch {
	case p.held > p.refused:
		return v1alpha1.ReasonMaxTainted
	case p.held > 0:
		return v1alpha1.ReasonRefused
	}
	return v1alpha1.ReasonNoNodeHeld
}

// over reports whether an instant has come, and otherwise notes that it will.
func (p *rulePlan) over(at, now time.Time) bool {
	if !at.After(now) {
		return true
	}
	if p.next.IsZero() || at.Before(p.next) {
		p.next = at
	}
	return false
}

// since returns since when a node has had the condition, or has not had it. Where the condition does not say, or
// names an instant that is yet to come, it is since this process saw it.
func (p *rulePlan) since(r *rule, node *corev1.Node, matching, has bool, memory ruleMemory, now time.Time) time.Time {
	if !matching && !has {
		return now // nobody asks
	}
	var transition time.Time
	if c := condition(node, r.spec.Condition.Type); c != nil {
		transition = c.LastTransitionTime.Time
	}
	seen, known := memory.sightings[node.Name]
	known = known && seen.uid == node.UID && seen.matching == matching && seen.transition.Equal(transition)
	if !known && !transition.IsZero() && !transition.After(now) {
		return transition
	}
	if !known {
		seen = sighting{uid: node.UID, matching: matching, transition: transition, at: now}
	}
	p.sightings[node.Name] = seen
	return seen.at
}

func claimOf(memory ruleMemory, node *corev1.Node) (claim, bool) {
	c, ok := memory.claims[node.Name]
	return c, ok && c.uid == node.UID
}
