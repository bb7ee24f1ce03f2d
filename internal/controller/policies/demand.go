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

// demand counts, for every policy that has a breaker, the selected pods that are due. It counts what is there and not
// what happens, so a process that has just started knows as much as one that has run for a week. It is safe for
// concurrent use.
type demand struct {
	dues func(node string) map[string][]time.Time // of the pods that a breaker counts, by policy
	of   func(p *policy.Policy) int               // how many pods a policy selects
	now  func() time.Time
	// known reports whether all nodes and pods are known. Before, a count would say nothing, and nobody evicts.
	known func() bool

	mu       sync.Mutex
	breakers map[string]*breaker // by policy
	stale    map[string]struct{} // nodes to count again
	nodes    map[string]map[string][]time.Time
	changed  chan struct{} // holds one element if the counts may be others
}

type breaker struct {
	policy *policy.Policy
	latch  policy.Latch
	told   bool // that it is open
}

func newDemand(now func() time.Time) *demand {
	return &demand{
		now: now, breakers: map[string]*breaker{}, stale: map[string]struct{}{},
		nodes: map[string]map[string][]time.Time{}, changed: make(chan struct{}, 1),
	}
}

// follow takes in the policies. Latches go on; one that is new may have tripped before this process began.
func (d *demand) follow(all []followed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := map[string]*breaker{}
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
}

// markStale says that the pods of some nodes must be counted again.
func (d *demand) markStale(nodes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.breakers) == 0 {
		return
	}
	for _, node := range nodes {
		d.stale[node] = struct{}{}
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// open says why the breaker of a policy is open; empty if it is not. It counts first.
func (d *demand) open(p *policy.Policy) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.breakers[p.Name]
	if b == nil || !d.known() {
		return ""
	}
	d.recount()
	b.count(d)
	return b.latch.Open()
}

// look counts for all breakers. It returns those that opened or closed, and when to look again if nothing changes; zero
// means not before.
func (d *demand) look() (changed []string, again time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if !d.known() {
		return nil, now.Add(lookAtMost)
	}
	d.recount()
	for _, name := range slices.Sorted(maps.Keys(d.breakers)) {
		b := d.breakers[name]
		was := b.told
		b.count(d)
		if b.told = !b.latch.Tripped.IsZero(); b.told != was {
			changed = append(changed, name)
		}
		for _, at := range []time.Time{b.latch.Closes(b.policy.Breaker()), d.next(name, now)} {
			again = timeline.Next(again, at)
		}
	}
	return changed, again
}

// recount counts the stale nodes. The caller holds the lock.
func (d *demand) recount() {
	for node := range d.stale {
		dues := d.dues(node)
		for _, of := range dues {
			slices.SortFunc(of, time.Time.Compare)
		}
		if d.nodes[node] = dues; len(dues) == 0 {
			delete(d.nodes, node)
		}
	}
	clear(d.stale)
}

// count takes in how many pods are due now. The caller of the demand holds its lock.
func (b *breaker) count(d *demand) {
	now := d.now()
	due := 0
	for _, of := range d.nodes {
		due += b.policy.Breaker().Count(of[b.policy.Name], now)
	}
	b.latch.Count(b.policy.Breaker(), due, d.of(b.policy), now)
}

// next returns when the next pod is due that a policy selects; zero if none is. The caller holds the lock.
func (d *demand) next(name string, now time.Time) (next time.Time) {
	for _, of := range d.nodes {
		for _, due := range of[name] { // in order
			if due.After(now) {
				next = timeline.Next(next, due)
				break
			}
		}
	}
	return next
}
