// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// demand counts, for every policy that has a breaker, the pods that would leave now if no policy had one. It counts
// state, not events, so a process that has just started knows as much as one that has run for a week. When it counts
// the pods of a node, it notes whether a pause or an open breaker keeps them. It is safe for concurrent use.
type demand struct {
	on      func(node string) nodeDemand        // the demand of a node's pods
	tainted func() []string                     // nodes with NoExecute taints
	edition func() int                          // of the policies; what was counted for another one is not used
	allowed func(budget string) int             // how many disruptions a budget allows
	of      func(p *policy.Policy, due int) int // how many pods a policy selects at least, given how many would leave
	now     func() time.Time
	// known reports whether all nodes and pods are known. Before that, counts are meaningless, and nothing is evicted.
	known func() bool

	mu       sync.Mutex
	halts    bool                // a policy can halt pods
	breakers map[string]*breaker // by policy
	stale    map[string]struct{} // nodes to count again
	nodes    map[string]nodeDemand
	counted  int           // the edition of the policies that nodes were counted for
	changed  chan struct{} // signals that the counts may have changed
}

// nodeDemand is what breakers count on a node.
type nodeDemand struct {
	of    map[string]*policy.Demand // by policy; nil if the node has no NoExecute taint
	again time.Time                 // when it changes if nothing but the time does; zero if it does not
}

type breaker struct {
	policy *policy.Policy
	latch  policy.Latch
	unread bool // see [policy.State]
	told   told
}

// told is what was last reported about a breaker.
type told struct{ open, unread bool }

func newDemand(now func() time.Time) *demand {
	return &demand{
		now: now, breakers: map[string]*breaker{}, stale: map[string]struct{}{},
		nodes: map[string]nodeDemand{}, changed: make(chan struct{}, 1),
	}
}

// follow applies the policies. Existing latches continue; a new one may have tripped before this process started.
func (d *demand) follow(all []followed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := map[string]*breaker{}
	d.halts = slices.ContainsFunc(all, func(p followed) bool { return p.MayHalt() })
	for _, p := range all {
		if p.Breaker() == nil {
			continue
		}
		b := d.breakers[p.Name]
		if b == nil {
			b = &breaker{latch: policy.Latch{Tripped: p.tripped}}
		}
		b.policy = p.Policy
		next[p.Name] = b
	}
	d.breakers = next
	d.wake()
}

// markStale notes that the pods of some nodes must be counted again.
func (d *demand) markStale(nodes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.breakers) == 0 && !d.halts {
		return
	}
	for _, node := range nodes {
		d.stale[node] = struct{}{}
	}
	d.wake()
}

// wake makes [demand.look] count. Whatever may change a latch or has changed one calls it, so that look always learns
// of a latch that has flipped or will close.
func (d *demand) wake() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// open returns why the breaker of a policy is open; empty if it is not. It counts first.
func (d *demand) open(p *policy.Policy) string { return d.state(p).Open }

// state returns what a policy remembers of its breaker. It counts first.
func (d *demand) state(p *policy.Policy) policy.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.breakers[p.Name]
	if b == nil || !d.known() {
		return policy.State{}
	}
	d.recount()
	b.count(d)
	return policy.State{Open: b.latch.Open(), Unread: b.unread}
}

// isOpen reports whether the breaker of a policy was open when it last counted. The caller holds the lock.
func (d *demand) isOpen(p *policy.Policy) bool {
	b := d.breakers[p.Name]
	return b != nil && !b.latch.Tripped.IsZero()
}

// look counts for all breakers. It returns those that opened or closed, whether answers have changed, and when to look
// again if nothing changes; zero means only after a change.
func (d *demand) look() (flipped []string, news bool, again time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if !d.known() {
		return nil, false, now.Add(lookAtMost)
	}
	d.recount()
	for _, name := range slices.Sorted(maps.Keys(d.breakers)) {
		b := d.breakers[name]
		b.count(d)
		was, is := b.told, told{open: !b.latch.Tripped.IsZero(), unread: b.unread}
		b.told, news = is, news || is != was
		if is.open != was.open {
			flipped = append(flipped, name)
		}
		again = timeline.Next(again, b.latch.Closes(b.policy.Breaker()))
		if is.open { // it can close because more pods are selected
			again = timeline.Next(again, now.Add(countEvery))
		}
	}
	for _, node := range d.nodes {
		again = timeline.Next(again, node.again)
	}
	return flipped, news, again
}

// recount counts the nodes whose demand may be another than when they were counted. The caller holds the lock.
func (d *demand) recount() {
	if edition := d.edition(); edition != d.counted {
		d.counted = edition
		for _, node := range d.tainted() {
			d.stale[node] = struct{}{}
		}
	}
	now := d.now()
	for node, is := range d.nodes {
		if !is.again.IsZero() && !is.again.After(now) {
			d.stale[node] = struct{}{}
		}
	}
	for node := range d.stale {
		is := d.on(node)
		if d.nodes[node] = is; is.of == nil {
			delete(d.nodes, node)
		}
	}
	clear(d.stale)
}

// count applies how many pods would leave now. Pods that are unread do not trip a breaker, because a budget may keep
// them. But as long as they could be too many, no pod of the policy leaves, and an open breaker stays open. The caller
// holds the lock of the demand.
func (b *breaker) count(d *demand) {
	var all policy.Demand
	for _, node := range d.nodes {
		if of := node.of[b.policy.Name]; of != nil {
			all.Join(*of)
		}
	}
	was, is := *b, b.policy.Breaker()
	certain, possible := all.Pods(d.allowed), all.AtMost(d.allowed)
	selected := d.of(b.policy, possible)
	b.unread = possible > certain && possible > is.MaxDue(selected)
	if b.unread && !b.latch.Tripped.IsZero() {
		certain = possible
	}
	b.latch.Count(is, certain, selected, d.now())
	same := b.latch.Tripped.Equal(was.latch.Tripped) && b.latch.Closes(is).Equal(was.latch.Closes(is))
	if !same || b.unread != was.unread {
		d.wake()
	}
}
