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

// demand counts, for every policy that has a breaker, the selected pods that are due. It counts state, not events, so a
// process that has just started knows as much as one that has run for a week. It is safe for concurrent use.
type demand struct {
	dues func(node string) map[string][]time.Time // when the pods that a breaker counts are due, by policy
	of   func(p *policy.Policy, due int) int      // how many pods a policy selects, given how many are due
	now  func() time.Time
	// known reports whether all nodes and pods are known. Before that, counts are meaningless, and nothing is evicted.
	known func() bool

	mu       sync.Mutex
	breakers map[string]*breaker // by policy
	stale    map[string]struct{} // nodes to count again
	nodes    map[string]map[string][]time.Time
	changed  chan struct{} // signals that the counts may have changed
}

type breaker struct {
	policy *policy.Policy
	latch  policy.Latch
	told   bool // reported as open
}

func newDemand(now func() time.Time) *demand {
	return &demand{
		now: now, breakers: map[string]*breaker{}, stale: map[string]struct{}{},
		nodes: map[string]map[string][]time.Time{}, changed: make(chan struct{}, 1),
	}
}

// follow applies the policies. Existing latches continue; a new one may have tripped before this process started.
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

// markStale notes that the pods of some nodes must be counted again.
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

// open returns why the breaker of a policy is open; empty if it is not. It counts first.
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
// means only after a change.
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

// count applies how many pods are due now. The caller holds the lock of the demand.
func (b *breaker) count(d *demand) {
	now := d.now()
	due := 0
	for _, of := range d.nodes {
		due += b.policy.Breaker().Count(of[b.policy.Name], now)
	}
	b.latch.Count(b.policy.Breaker(), due, d.of(b.policy, due), now)
}

// next returns when the next pod that a policy selects is due; zero if none is. The caller holds the lock.
func (d *demand) next(name string, now time.Time) (next time.Time) {
	for _, of := range d.nodes {
		for _, due := range of[name] { // sorted
			if due.After(now) {
				next = timeline.Next(next, due)
				break
			}
		}
	}
	return next
}
