// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"
)

// Demand is what a breaker counts: the pods that would start to leave now if no policy had a breaker. A pod that
// something else keeps, such as a Hold, a pause or a full budget, cannot leave when the breaker closes, so it does not
// count. A pace does not keep pods, it only spreads them over time, so those that wait for one count. The zero value is
// no demand.
type Demand struct {
	free   int
	asking map[string]int // pods that the Eviction API is asked about, by their PodDisruptionBudget
	unread int            // pods that it is asked about if their budgets, which are not known, do not keep them
}

// Counts returns what would happen to a pod now if no policy had a breaker, and whether the breaker of a policy counts
// the pod, because it would start to leave and a taint to which the policy applies is a reason. Pods that are
// [Breaker.Resumed] do not count. A dry run counts as it would in earnest. A pod that is unread counts as if no budget
// kept it.
func (p *Policy) Counts(policies []*Policy, pod *Pod, causes []Cause, now time.Time) (said Said, counts bool) {
	if pod.Budgets.Objects == PodUnread {
		read := *pod
		read.Budgets = Budgets{}
		pod = &read
	}
	var counted []Cause
	due := false
	for _, cause := range causes {
		if !p.Applies(cause.Taint) || p.breaker.Resumed(cause.seen(), now) {
			continue
		}
		counted = append(counted, cause)
		due = due || !cause.Due.After(now)
	}
	said = decide(policies, counted, now, func(other *Policy, cause Cause) Answer {
		if other.DryRun && other.Name != p.Name {
			return Answer{}
		}
		return other.withoutBreaker(pod, cause, now)
	})
	if at := p.breaker.resumedAt; at.After(now) {
		said.Again = instant.Next(said.Again, at)
	}
	return said, due && !said.Stays()
}

// countsSince returns since when the breaker has counted a pod, and when that changes next. Since is zero if it has
// counted the pod for longer than settle, and [Later] if it does not count it.
//
// What else keeps a pod can end long after the pod was due: a deadline does, and so does the patience with a pod that
// is not ready. Waves of such ends must not pass the breaker pod by pod. A pod that the Eviction API need no longer be
// asked about begins to count again, because its budget kept it before.
func (p *Policy) countsSince(policies []*Policy, pod *Pod, causes []Cause, now time.Time) (since, next time.Time) {
	at := now.Add(-p.breaker.Settle)
	step, next := p.countsAt(policies, pod, causes, at)
	for !next.IsZero() && !next.After(now) {
		at = next
		before := step
		if step, next = p.countsAt(policies, pod, causes, at); step < before {
			since = at
		}
	}
	if step > Ask {
		return Later, next
	}
	return since, next
}

// countsAt returns what would have happened to a pod at an earlier instant if no policy had had a breaker, and when
// that changed next: [Hold] if the breaker did not count the pod.
func (p *Policy) countsAt(policies []*Policy, pod *Pod, causes []Cause, at time.Time) (step Step, next time.Time) {
	then := *pod
	then.Unready = pod.Unready && !at.Before(pod.Since)
	said, counts := p.Counts(policies, &then, causes, at)
	next = said.Again
	if pod.Unready && pod.Since.After(at) {
		next = instant.Next(next, pod.Since)
	}
	if !counts {
		return Hold, next
	}
	return said.Step, next
}

// withoutBreaker is what a policy says that has neither a breaker nor a pace. During a halt, deadlines stand still: one
// that was over when a breaker opened keeps it open, and one that was not does not end meanwhile.
func (p *Policy) withoutBreaker(pod *Pod, cause Cause, now time.Time) Answer {
	if pod.NamespaceEnds {
		return Answer{}
	}
	if keeps := p.keeps(pod); keeps.Stays() {
		return keeps
	}
	if since := cause.Halt.Since; !since.IsZero() {
		now = since
	}
	return p.acts(pod, cause, now)
}

// Add counts a pod that [Policy.Counts], once or, when it no longer counts, minus once. It reports whether the pod must
// be read to tell whether it counts.
func (d *Demand) Add(pod *Pod, said Said, times int) (unread bool) {
	switch {
	case said.Step != Ask:
		d.free += times
	case pod.Budgets.Objects == PodUnread:
		d.unread += times
		return true
	case pod.Budgets.Name == "":
		d.free += times
	default:
		d.ask(pod.Budgets.Name, times)
	}
	return false
}

// Join adds another demand, once or minus once.
func (d *Demand) Join(other *Demand, times int) {
	d.free += times * other.free
	d.unread += times * other.unread
	for budget, pods := range other.asking {
		d.ask(budget, times*pods)
	}
}

// ask counts pods that the Eviction API is asked about.
func (d *Demand) ask(budget string, pods int) {
	if d.asking == nil {
		d.asking = map[string]int{}
	}
	if d.asking[budget] += pods; d.asking[budget] == 0 {
		delete(d.asking, budget)
	}
}

// Pods returns how many pods would certainly start to leave. Of the pods of a budget, no more than it allows now.
func (d *Demand) Pods(allowed func(budget string) int) int {
	pods := d.free
	for budget, asking := range d.asking {
		pods += min(asking, allowed(budget))
	}
	return pods
}

// AtMost returns how many pods would start to leave if no budget kept those that are unread.
func (d *Demand) AtMost(allowed func(budget string) int) int { return d.Pods(allowed) + d.unread }
