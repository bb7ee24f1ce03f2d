// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// remembered is the state of the EvictionPolicies.
type remembered struct {
	set      *policies.Set
	line     *policy.Line
	windows  map[window]*policy.Window
	latches  map[*policy.Policy]*policy.Latch // of those with a breaker
	selected map[*policy.Policy]int           // how many pods each selects
	counting each
	calls    once
}

// window is a pace in one scope.
type window struct {
	policy *policy.Policy
	scope  string
}

// remember returns the state of the policies at the start, which is empty. It is nil without policies.
func (s *simulation) remember() *remembered {
	set := s.cluster.PoliciesOf()
	if set == nil {
		return nil
	}
	r := &remembered{
		set: set, line: policy.NewLine(), windows: map[window]*policy.Window{},
		latches: map[*policy.Policy]*policy.Latch{}, selected: map[*policy.Policy]int{},
	}
	for _, p := range set.All {
		if p.Breaker() != nil {
			r.latches[p] = &policy.Latch{}
		}
	}
	r.counting = each{queue: &s.queue, kind: counts, do: s.count, at: map[time.Time]bool{}}
	r.calls = once{queue: &s.queue, kind: calls, do: s.call}
	s.notes = append(s.notes, set.Flaws...)
	return r
}

// selects counts a pod that policies select, or removes one that is gone.
func (r *remembered) selects(selecting []*policy.Policy, change int) {
	for _, p := range selecting {
		r.selected[p] += change
	}
}

// object asks the policies about the due pods of a node, and returns those that leave.
func (s *simulation) object(n *node, due []leaver, now time.Time) (leave []leaver) {
	r := s.policies
	var lined []policy.Waiting
	var called []question
	for _, l := range due {
		q := s.ask(l, now)
		switch {
		case plan.Unwanted(l.Pod, q.causes): // its controller ignores policies
			leave = append(leave, l)
			continue
		case q.said.Stays():
			l.held = q.said.Answer
		case len(q.needs) == 0:
			leave = append(leave, l)
		default:
			lined = append(lined, policy.Waiting{UID: l.UID, Due: q.due, Needs: q.needs})
			called = append(called, q)
		}
		s.lookAt(n, q.said.Again)
	}
	if r.line.Set(n.Name, lined, now) {
		r.calls.set(now)
	}
	for _, q := range called {
		if s.goes(q, now) {
			leave = append(leave, q.leaver)
			s.lookAt(n, now) // the queue must learn that they have left
		}
	}
	return leave
}

// question is a pod that the policies are asked about.
type question struct {
	leaver

	known  *policy.Pod
	causes []policy.Cause
	said   policy.Said
	needs  []policy.Places
	budget *budget // the budget that it needs
	due    time.Time
}

// ask asks the policies about a pod that is due.
func (s *simulation) ask(l leaver, now time.Time) question {
	n := l.on
	q := question{leaver: l, causes: s.causes(l.pod, n, now)}
	known, turns := s.known(l.pod, now)
	q.known = known
	q.said = policy.Decide(l.selecting, q.known, q.causes, now, s.policies.state)
	q.said.Again = timeline.Next(q.said.Again, turns)
	if q.said.Stays() {
		return q
	}
	needs := policy.NeedsOf(l.selecting, q.known, q.causes, now, s.policies.state)
	q.needs, q.due = s.policies.windowsOf(needs.Paces, n), needs.Due
	if needs.Budget {
		q.budget = l.budgets[0]
		q.needs = append(q.needs, q.budget.allowance)
	}
	return q
}

// causes returns the taints because of which a pod must leave, now or later, and notes whether a pause or an open
// breaker keeps it now.
func (s *simulation) causes(p *pod, n *node, now time.Time) []policy.Cause {
	causes := policy.CausesOf(plan.Rule, p.facts, n.taints)
	open := func(by *policy.Policy) bool { return s.policies.state(by).Open != "" }
	for i := range causes {
		if causes[i].Due.After(now) {
			continue
		}
		halt := p.halts[causes[i].Taint.Key]
		if halt == nil {
			halt = &policy.Halt{}
			if p.halts == nil {
				p.halts = map[string]*policy.Halt{}
			}
			p.halts[causes[i].Taint.Key] = halt
		}
		halt.Note(policy.Halts(p.selecting, causes[i], now, open), now)
		causes[i].Halt = *halt
	}
	return causes
}

// known returns what policies need to know about a pod on its node, and when it will count as unready.
func (s *simulation) known(p *pod, now time.Time) (known *policy.Pod, turns time.Time) {
	known, turns = s.policies.set.FactsAt(p.is, policies.NodeOf(p.on.Node), now)
	var names []string
	for _, b := range p.budgets {
		if !p.is.IgnoresBudgets && (len(p.budgets) > 1 || p.ready || !b.sparesUnready()) {
			names = append(names, b.Namespace+"/"+b.Name)
		}
	}
	known.Budgets = s.policies.set.BudgetsNamed(names...)
	return known, turns
}

// goes reports whether a pod gets all the places that it needs, and may leave.
func (s *simulation) goes(q question, now time.Time) bool {
	r := s.policies
	if !policy.Has(q.UID, q.needs, now) {
		if q.budget != nil {
			q.known.Budgets.Objects = q.budget.allowance.Lacks(now)
			if len(q.needs) == 1 { // room that is free now is for others, who were due first
				q.known.Budgets.Objects = cmp.Or(q.known.Budgets.Objects, policy.BudgetBusy)
			}
		}
		q.held = policy.Decide(q.selecting, q.known, q.causes, now, policy.Full(r.state)).Answer
		return false
	}
	r.line.Begin(q.on.Name, q.UID)
	if q.budget == nil || q.budget.room() > 0 {
		return true
	}
	q.budget.allowance.Begin(q.UID, now) // the Eviction API refuses
	q.budget.allowance.Stays(q.UID)
	r.line.Stays(q.on.Name, q.UID, now)
	r.calls.set(now)
	q.known.Budgets.Objects = policy.Budget
	q.held = policy.Decide(q.selecting, q.known, q.causes, now, r.state).Answer
	return false
}

// state returns the state of a policy.
func (r *remembered) state(p *policy.Policy) policy.State {
	if latch := r.latches[p]; latch != nil {
		return policy.State{Open: latch.Open()}
	}
	return policy.State{}
}

// windowsOf returns the windows in which policies count the pods that leave a node.
func (r *remembered) windowsOf(all []*policy.Policy, n *node) (windows []policy.Places) {
	for _, p := range all {
		if p.Pace() == nil || p.DryRun {
			continue
		}
		key := window{p, p.Pace().In(n.Name, zoneOf(n.Node))}
		if r.windows[key] == nil {
			r.windows[key] = policy.NewWindow(*p.Pace(), time.Time{})
		}
		windows = append(windows, r.windows[key])
	}
	return windows
}

// left counts a pod that leaves.
func (r *remembered) left(p *pod, n *node, now time.Time) {
	for _, w := range r.windowsOf(policy.Counting(p.selecting, n.taints), n) {
		w.Left(p.UID, now)
	}
	for _, b := range p.budgets {
		b.allowance.Left(p.UID, now)
	}
	r.selects(p.selecting, -1)
	r.counting.set(now)
	r.calls.set(now)
}

// call gives free places of paces and budgets to the pods that wait for them.
func (s *simulation) call(now time.Time) {
	nodes, next := s.policies.line.Call(now)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		s.lookAt(s.nodes[name], now)
	}
	s.policies.calls.set(next)
}

// count lets breakers count the pods that are due.
func (s *simulation) count(now time.Time) {
	r := s.policies
	demand := map[*policy.Policy]*policy.Demand{}
	for _, name := range s.names {
		n := s.nodes[name]
		s.demandOn(n, now)
		for p, of := range n.demand {
			if demand[p] == nil {
				demand[p] = &policy.Demand{}
			}
			demand[p].Join(*of)
		}
		r.counting.set(n.recount)
	}
	for _, p := range r.set.All {
		latch := r.latches[p]
		if latch == nil {
			continue
		}
		pods := 0
		if of := demand[p]; of != nil {
			pods = of.Pods(func(budget string) int { return s.allowed[budget].room() })
		}
		if latch.Count(p.Breaker(), pods, r.selected[p], now) {
			s.tellBreaker(p, latch, now)
			for _, name := range s.names {
				if n := s.nodes[name]; len(n.taints) > 0 {
					s.lookAt(n, now)
				}
			}
		}
		r.counting.set(latch.Closes(p.Breaker()))
	}
}

// demandOn updates what breakers count on a node, if that may have changed.
func (s *simulation) demandOn(n *node, now time.Time) {
	if n.demand != nil && (n.recount.IsZero() || n.recount.After(now)) {
		return
	}
	if n.demand, n.recount = nil, (time.Time{}); len(n.taints) == 0 {
		return
	}
	n.demand = map[*policy.Policy]*policy.Demand{}
	for _, p := range n.pods {
		if p.stage != bound || plan.IsStatic(p.Pod) {
			continue
		}
		known, turns := s.known(p, now)
		causes := s.causes(p, n, now)
		for _, of := range p.selecting {
			if of.Breaker() == nil {
				continue
			}
			said, counts := of.Counts(p.selecting, known, causes, now)
			n.recount = timeline.Next(n.recount, timeline.Next(said.Again, turns))
			if !counts {
				continue
			}
			if n.demand[of] == nil {
				n.demand[of] = &policy.Demand{}
			}
			n.demand[of].Add(known, said, 1)
		}
	}
}
