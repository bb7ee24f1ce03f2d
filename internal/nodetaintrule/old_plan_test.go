package nodetaintrule

import (
	"cmp"
	"slices"
	"time"
)

type oldOutcome struct {
	// selected, matching and held count nodes; tainted those that have the taint, refused those of the held that the
	// API server refuses to have tainted.
	selected, matching, tainted, held, refused int
	// example is the first of the refused by name, and why what was said of it.
	example, why string
	// bound is the most that may be tainted at once; -1: any number.
	bound int
	// next is the next instant at which anything changes by time alone; zero: none.
	next time.Time
}

// candidate is a node that is to have the taint if the bound allows it.
type oldCandidate struct {
	*place

	name    string
	turn    int       // 0: it may have the taint already, so its place is taken; 1: otherwise
	refused time.Time // zero: never
}

// plan says which nodes are to have the taint of a rule, in the places themselves. The taint comes when the condition
// has held for long enough: to the nodes that have had it longest first, then by name, and to no more than the bound at
// once; those that were refused come last. It goes when the condition has been over for long enough, and at once when
// the node is no longer selected. doubts are the nodes that may have the taint without showing it. blocked reports
// whether a node has another's taint of the same key and effect.
func oldPlan(
	r *rule, selected int, places map[string]*place, doubts []string, blocked func(string, *place) bool, now time.Time,
) oldOutcome {
	o := oldOutcome{selected: selected, bound: -1}
	var candidates []oldCandidate
	taken := 0 // of the places below the bound, by nodes that are no candidates
	for name, p := range places {
		ripe, has := o.look(r, name, p, blocked, now)
		if has && (ripe || !r.asIf) {
			taken++
		}
		if c, may := o.candidate(name, p, now, ripe && !has); may {
			candidates = append(candidates, c)
		}
	}
	o.choose(r, candidates, taken+oldReserve(candidates, places, doubts))
	for _, p := range places {
		if p.counts(r) {
			o.tainted++
		}
	}
	return o
}

// look counts a node, and reports whether it is to have the taint if the bound allows it, and whether it has.
func (o *oldOutcome) look(
	r *rule, name string, p *place, blocked func(string, *place) bool, now time.Time,
) (ripe, has bool) {
	if p.matches() {
		o.matching++
	}
	has, ripe = p.has(r), p.oldRipe(r, blocked, name, now, o)
	p.changed, p.wanted = false, ripe && has
	return ripe, has
}

// reserve puts the candidates that may have the taint already before the others: their places are taken. It returns how
// many more places are, by nodes in doubt that are no candidates.
func oldReserve(candidates []oldCandidate, places map[string]*place, doubts []string) int {
	taken := 0
	for _, name := range doubts {
		i := slices.IndexFunc(candidates, func(c oldCandidate) bool { return c.name == name })
		if i >= 0 {
			candidates[i].turn = 0
		} else if p := places[name]; p == nil || !p.owned {
			taken++
		}
	}
	return taken
}

// ripe reports whether a node is to have the taint, as far as time and the node itself decide.
func (p *place) oldRipe(r *rule, blocked func(string, *place) bool, name string, now time.Time, o *oldOutcome) bool {
	switch {
	case r.frozen || !p.selected:
		return false
	case p.has(r):
		return p.holds || !o.over(p.since.Add(r.spec.ClearAfter.Duration), now)
	case !p.holds || blocked(name, p):
		return false
	}
	// A taint that somebody else took off comes again at once.
	return p.labelled && p.standing == "" || o.over(p.since.Add(r.spec.After.Duration), now)
}

// candidate reports whether a node may be given the taint now, if it waits for it. It counts a refusal.
func (o *oldOutcome) candidate(name string, p *place, now time.Time, waits bool) (oldCandidate, bool) {
	c := oldCandidate{place: p, name: name, turn: 1}
	if !waits || p.refusal == nil {
		return c, waits
	}
	o.held++
	o.refused++
	if o.example == "" || name < o.example {
		o.example, o.why = name, p.refusal.why
	}
	c.refused = p.refusal.at
	return c, o.over(c.refused.Add(refusedFor), now)
}

// choose takes as many candidates as the bound leaves free places. Those that may have the taint already have theirs.
func (o *oldOutcome) choose(r *rule, candidates []oldCandidate, taken int) {
	free := len(candidates)
	if most, bounded := r.bound(o.selected); bounded {
		o.bound, free = most, min(free, max(most-taken, 0))
	}
	slices.SortFunc(candidates, func(a, b oldCandidate) int {
		byTime := cmp.Or(a.refused.Compare(b.refused), a.since.Compare(b.since))
		return cmp.Or(cmp.Compare(a.turn, b.turn), byTime, cmp.Compare(a.name, b.name))
	})
	for i, c := range candidates {
		c.wanted = i < free
		if !c.wanted && c.refused.IsZero() {
			o.held++
		}
	}
}

// over reports whether an instant has come, and otherwise notes that it will.
func (o *oldOutcome) over(at, now time.Time) bool {
	if !at.After(now) {
		return true
	}
	if o.next.IsZero() || at.Before(o.next) {
		o.next = at
	}
	return false
}
