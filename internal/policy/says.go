// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// State is what a policy remembers.
type State struct {
	// Open tells why the breaker is open; empty if it is closed. See [Latch].
	Open string
	// Unread is set while the breaker could turn out to be open, once all pods that it counts have been read.
	Unread bool
	// Counts is since when the breaker has counted the pod; zero if since the pod was due, [Later] if it does not count
	// the pod, because something else keeps it. [Decide] sets it.
	Counts time.Time
	// Room returns when the pace has room for the pod. Zero or an instant that has passed means now, and [Later] means
	// that it is not known when. It is called only if nothing but the pace objects. A nil Room means now.
	Room func() time.Time
}

// Later is an unknown instant in the future.
var Later = verdict.Latest

// Full returns the states of policies whose paces all have no room.
func Full(state func(*Policy) State) func(*Policy) State {
	return func(p *Policy) State {
		is := state(p)
		if p.pace != nil {
			is.Room = func() time.Time { return Later }
		}
		return is
	}
}

// Says returns the answer of one policy that selects the pod and applies to a taint because of which it is due. The
// lines below follow the rule in the package comment.
func (p *Policy) Says(pod *Pod, cause Cause, now time.Time, state State) Answer {
	if p.DryRun || pod.NamespaceEnds {
		return Answer{}
	}
	if keeps := p.keeps(pod); keeps.Stays() {
		return keeps
	}
	if brakes := p.brakes(cause.seen(), now, state); brakes.Stays() {
		return brakes
	}
	action := p.acts(pod, cause, now)
	if action.Stays() || state.Room == nil {
		return action
	}
	switch room := state.Room(); {
	case !room.After(now):
		return action
	case room.Equal(Later):
		return p.answer(Wait, Paced, time.Time{}, "")
	default:
		return p.answer(Wait, Paced, room, "")
	}
}

// keeps is what keeps the pod regardless of the action and its deadline, and of other pods; Free if nothing does.
func (p *Policy) keeps(pod *Pod) Answer {
	switch {
	case p.keep && pod.Finished:
		return p.answer(Hold, Finished, time.Time{}, "")
	case p.paused != nil:
		return p.answer(Hold, Paused, time.Time{}, *p.paused)
	}
	return Answer{}
}

// brakes is what the breaker says in lines 2 and 3 about a pod that was first seen as due at an instant; Free if it
// lets the pod go.
func (p *Policy) brakes(seen, now time.Time, state State) Answer {
	if p.breaker == nil || p.breaker.Resumed(seen, now) {
		return Answer{}
	}
	settled, resumes := instant.Later(seen, state.Counts).Add(p.breaker.Settle), p.breaker.resumes(seen)
	switch {
	case state.Open != "":
		return p.answer(Hold, BreakerOpen, resumes, state.Open)
	case state.Counts.Equal(Later):
	case now.Before(settled):
		return p.answer(Wait, Settling, instant.Next(settled, resumes), "")
	case state.Unread:
		return p.answer(Wait, PodUnread, resumes, "")
	}
	return Answer{}
}

// acts is lines 4, 6 and 7: what the action says until its deadline ends it. Line 5 is in between, because a pace
// counts only pods that the action lets go.
func (p *Policy) acts(pod *Pod, cause Cause, now time.Time) Answer {
	var ends time.Time
	if p.deadline != nil {
		if ends = p.DeadlineFrom(cause).Add(*p.deadline); !now.Before(ends) {
			return Answer{}
		}
	}
	switch {
	case p.action == v1alpha1.ActionHold:
		return p.answer(Hold, Held, ends, "")
	case p.action == v1alpha1.ActionDelete, pod.Unready && !p.ask:
		return Answer{}
	case pod.Budgets.Objects == PodUnread: // milder than Hold: what a policy holds need not be read
		return p.answer(Wait, PodUnread, ends, "")
	case pod.Budgets.Objects != "":
		return p.answer(Hold, pod.Budgets.Objects, ends, pod.Budgets.Name)
	}
	return p.answer(Ask, "", ends, pod.Budgets.Name)
}

// DeadlineFrom returns from when the deadline of the policy counts: the later of due and the end of the last halt.
func (p *Policy) DeadlineFrom(cause Cause) time.Time {
	return slices.MaxFunc([]time.Time{cause.Due, cause.Halt.Ended, p.Halted}, time.Time.Compare)
}

func (p *Policy) answer(step Step, why Why, until time.Time, detail string) Answer {
	return Answer{Step: step, Until: until, Policy: p.Name, Why: why, Detail: detail}
}

// Counting returns those of a pod's policies that count the pod when it leaves a node with these taints.
func Counting(policies []*Policy, taints []verdict.Taint) []*Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p *Policy) bool {
		return !slices.ContainsFunc(taints, func(t verdict.Taint) bool { return p.Applies(&t.Taint) })
	})
}

// Pacing returns those of a pod's policies whose pace counts the pod when it leaves because of a taint.
func Pacing(policies []*Policy, pod *Pod, taint *corev1.Taint) (paced []*Policy) {
	for _, p := range policies {
		if p.pace != nil && !p.DryRun && !pod.NamespaceEnds && p.Applies(taint) {
			paced = append(paced, p)
		}
	}
	return paced
}

// Needs are the places that a pod needs to leave. The zero value needs none.
type Needs struct {
	// Paces are the policies in whose pace it needs a place.
	Paces []*Policy
	// Budget is set if it needs a place in its PodDisruptionBudget.
	Budget bool
	// Due is since when it has needed the places.
	Due time.Time
}

// NeedsOf returns the places that a pod needs to leave because of taints. Of the taints that let it go now, only those
// count that do so most mildly, as for the answer: what a pod needs are the places that its eviction takes. It needs
// nothing if one of these taints lets it go without places.
func NeedsOf(policies []*Policy, pod *Pod, causes []Cause, now time.Time, state func(*Policy) State) (all Needs) {
	mildest, none := Hold, false
	for i, cause := range causes {
		answer := Decide(policies, pod, causes[i:i+1], now, state)
		if cause.Due.After(now) || answer.Stays() || answer.Step > mildest {
			continue
		}
		if answer.Step < mildest {
			mildest, none, all = answer.Step, false, Needs{}
		}
		one := Needs{Pacing(policies, pod, cause.Taint), answer.Step == Ask && pod.Budgets.Name != "", cause.Due}
		none = none || len(one.Paces) == 0 && !one.Budget
		all.add(one)
	}
	if none {
		return Needs{}
	}
	return all
}

// add adds what the pod needs because of another taint.
func (n *Needs) add(other Needs) {
	for _, p := range other.Paces {
		if !slices.Contains(n.Paces, p) {
			n.Paces = append(n.Paces, p)
		}
	}
	n.Budget = n.Budget || other.Budget
	if n.Due.IsZero() || other.Due.Before(n.Due) {
		n.Due = other.Due
	}
}

// Decide returns what all policies that select a pod say about it together. The causes are all taints because of which
// it must leave, due or not; at least one of them is due.
func Decide(policies []*Policy, pod *Pod, causes []Cause, now time.Time, state func(*Policy) State) Said {
	var again time.Time
	counts := map[*Policy]time.Time{}
	for _, p := range policies {
		if p.breaker != nil {
			since, next := p.countsSince(policies, pod, causes, now)
			counts[p], again = since, instant.Next(again, next)
		}
	}
	said := decide(policies, causes, now, func(p *Policy, cause Cause) Answer {
		is := state(p)
		is.Counts = counts[p]
		return p.Says(pod, cause, now, is)
	})
	said.Again = instant.Next(said.Again, again)
	return said
}

// decide is [Decide] with what one policy says about a pod that is due because of a taint.
func decide(policies []*Policy, causes []Cause, now time.Time, says func(*Policy, Cause) Answer) (said Said) {
	next := func(at time.Time) {
		if at.After(now) {
			said.Again = instant.Next(said.Again, at)
		}
	}
	found := false
	for _, cause := range causes {
		if cause.Due.After(now) {
			next(cause.Due)
			continue
		}
		var strictest Answer
		for _, p := range policies {
			if !p.Applies(cause.Taint) {
				continue
			}
			answer := says(p, cause)
			next(answer.Until)
			if answer.stricter(strictest) {
				strictest = answer
			}
		}
		if !found || said.stricter(strictest) {
			said.Answer, found = strictest, true
		}
	}
	return said
}
