// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"
)

// breaker is the memory of a policy's breaker.
type breaker struct {
	policy *Policy
	latch  Latch
	unread bool // see [State]
	told   told
}

// told is what [Engine.Next] last returned about a breaker.
type told struct{ open, unread bool }

// nodeDemand is what breakers count on a node.
type nodeDemand struct {
	of    map[string]*Demand // by policy
	again time.Time          // when it changes if nothing but the time does; zero if it does not
}

// followBreakers applies the policies. Existing latches continue; a new one may have tripped before.
func (e *Engine) followBreakers(all []*Policy) {
	next := map[string]*breaker{}
	e.counting = slices.ContainsFunc(all, (*Policy).counts)
	for _, p := range all {
		if p.breaker == nil {
			continue
		}
		b := e.breakers[p.Name]
		if b == nil {
			b = &breaker{latch: Latch{Tripped: p.Tripped}, told: told{open: !p.Tripped.IsZero()}}
		}
		b.policy = p
		next[p.Name] = b
	}
	e.breakers = next
}

// counts reports whether the pods that the policy selects must be counted before anybody asks.
func (p *Policy) counts() bool { return p.breaker != nil || p.MayHalt() }

// MarkStale notes that the pods of some nodes must be counted again, because they or the node have changed.
func (e *Engine) MarkStale(nodes ...string) {
	if !e.counting {
		return
	}
	for _, node := range nodes {
		e.stale[node] = struct{}{}
	}
	e.pending = true
}

// MarkAllStale notes that all pods must be counted again, at least to note that no policy halts them any more.
func (e *Engine) MarkAllStale() {
	e.pending = true
	for node := range e.demands {
		e.stale[node] = struct{}{}
	}
	for _, node := range e.cluster.Tainted() {
		e.stale[node] = struct{}{}
	}
}

// state returns what a policy remembers of its breaker, as it was last counted.
func (e *Engine) state(p *Policy) State {
	if b := e.breakers[p.Name]; b != nil {
		return State{Open: b.latch.Open(), Unread: b.unread}
	}
	return State{}
}

// IsOpen reports whether the breaker of a policy was open when it was last counted.
func (e *Engine) IsOpen(p *Policy) bool {
	b := e.breakers[p.Name]
	return b != nil && b.isOpen()
}

// Open returns why the breaker of a policy is open; empty if it is not. It counts first.
func (e *Engine) Open(p *Policy, now time.Time) string {
	e.count(now)
	return e.state(p).Open
}

// gathers reports whether to wait for more changes before they are counted.
func (e *Engine) gathers(now time.Time) bool {
	if e.gathered.IsZero() && len(e.stale) > 0 {
		e.gathered = now.Add(e.gather)
	}
	if now.Before(e.gathered) {
		return true
	}
	e.gathered = time.Time{}
	return false
}

// lookAtBreakers counts for all breakers. It returns those that have opened or closed, whether answers have changed,
// and when to look again if nothing else happens; zero if time alone changes nothing.
func (e *Engine) lookAtBreakers(now time.Time) (flipped []string, news bool, again time.Time) {
	e.count(now)
	for _, name := range slices.Sorted(maps.Keys(e.breakers)) {
		b := e.breakers[name]
		was, is := b.told, told{open: b.isOpen(), unread: b.unread}
		b.told, news = is, news || is != was
		if is.open != was.open {
			flipped = append(flipped, name)
		}
		again = instant.Next(again, b.latch.Closes(b.policy.breaker))
	}
	return flipped, news, instant.Next(again, e.recount)
}

// count counts the nodes whose demand may be another than when they were counted, and then for all breakers. It counts
// state, not events, so an Engine that has just begun knows as much as one that has run for a week.
func (e *Engine) count(now time.Time) {
	if !e.recount.IsZero() && !e.recount.After(now) {
		e.recount = time.Time{}
		for node, is := range e.demands {
			if is.again.IsZero() || is.again.After(now) {
				e.recount = instant.Next(e.recount, is.again)
				continue
			}
			e.stale[node] = struct{}{}
		}
	}
	for node := range e.stale {
		e.countOn(node, now)
	}
	clear(e.stale)
	for _, b := range e.breakers {
		e.countFor(b, now)
	}
}

// countOn counts the pods of a node.
func (e *Engine) countOn(node string, now time.Time) {
	for policy, of := range e.demands[node].of {
		e.total[policy].Join(of, -1)
	}
	is := nodeDemand{of: map[string]*Demand{}}
	for _, pod := range e.cluster.Leaving(node, now) {
		e.note(pod, now)
		if unread := is.add(pod, now); unread {
			e.cluster.Read(pod)
		}
	}
	delete(e.demands, node)
	if len(is.of) > 0 || !is.again.IsZero() {
		e.demands[node] = is
		e.recount = instant.Next(e.recount, is.again)
	}
	for policy, of := range is.of {
		if e.total[policy] == nil {
			e.total[policy] = &Demand{}
		}
		e.total[policy].Join(of, 1)
	}
}

// add counts a pod for the breakers of its policies. It reports whether the pod must be read to tell whether it counts.
func (on *nodeDemand) add(pod *Leaver, now time.Time) (unread bool) {
	if slices.ContainsFunc(pod.By, (*Policy).MayHalt) {
		for _, cause := range pod.Causes {
			if cause.Due.After(now) {
				on.again = instant.Next(on.again, cause.Due)
			}
		}
	}
	for _, p := range pod.By {
		if p.breaker == nil {
			continue
		}
		said, counts := p.Counts(pod.By, pod.Pod, pod.Causes, now)
		on.again = instant.Next(on.again, instant.Next(said.Again, pod.Turns))
		if !counts {
			continue
		}
		if on.of[p.Name] == nil {
			on.of[p.Name] = &Demand{}
		}
		unread = on.of[p.Name].Add(pod.Pod, said, 1) || unread
	}
	return unread
}

// countFor applies how many pods would leave now. Pods that are unread do not trip a breaker, because a budget may keep
// them. But as long as they could be too many, no pod of the policy leaves, and an open breaker stays open.
func (e *Engine) countFor(b *breaker, now time.Time) {
	all := e.total[b.policy.Name]
	if all == nil {
		all = &Demand{}
	}
	was, is := *b, b.policy.breaker
	certain, possible := all.Pods(e.allowed), all.AtMost(e.allowed)
	selected := e.cluster.Selected(b.policy, possible, now)
	b.unread = possible > certain && possible > is.MaxDue(selected)
	if b.unread && b.isOpen() {
		certain = possible
	}
	b.latch.Count(is, certain, selected, now)
	same := b.latch.Tripped.Equal(was.latch.Tripped) && b.latch.Closes(is).Equal(was.latch.Closes(is))
	if !same || b.unread != was.unread {
		e.pending = true
	}
}

func (b *breaker) isOpen() bool { return !b.latch.Tripped.IsZero() }

// allowed returns how many disruptions a budget allows.
func (e *Engine) allowed(budget string) int {
	if is := e.budgets[budget]; is != nil {
		return is.allowed
	}
	return 0
}
