// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/nodecache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// nodes knows the nodes that have NoExecute taints, and since when each taint counts.
// It follows the cache of nodes and is safe for concurrent use.
type nodes struct {
	cache *nodecache.Cache
	clock *apicall.Clock
	// neverStamped: no timeAdded is written, to no node.
	neverStamped bool
	// unstampable are the names of the nodes whose timeAdded may not be written.
	unstampable sync.Map // string -> struct{}

	mu          sync.RWMutex
	tainted     map[string]*node
	subscribers []func(name string)
}

func newNodes(from *nodecache.Cache, clock *apicall.Clock) *nodes {
	return &nodes{cache: from, clock: clock, tainted: map[string]*node{}}
}

// follow begins to observe.
func (n *nodes) follow() { n.cache.Subscribe(n.observe) }

// get returns what is known of a node, if it has NoExecute taints.
func (n *nodes) get(name string) (*node, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	known, ok := n.tainted[name]
	return known, ok
}

// exists reports whether there is a node of that name, tainted or not.
func (n *nodes) exists(name string) bool {
	_, exists := n.cache.Get(name)
	return exists
}

// subscribe calls the function with the name of every node whose NoExecute taints change, and
// with those of the nodes that have some now. It may ask about nodes.
func (n *nodes) subscribe(changed func(name string)) {
	n.mu.Lock()
	n.subscribers = append(n.subscribers, changed)
	names := slices.Collect(maps.Keys(n.tainted))
	n.mu.Unlock()
	for _, name := range names {
		changed(name)
	}
}

func (n *nodes) count() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.tainted)
}

func (n *nodes) observe(change nodecache.Change) {
	if change.After == nil {
		n.forget(change.Before.Name)
		n.notify(change.Before.Name)
		return
	}
	if n.advance(change) {
		n.notify(change.After.Name)
	}
}

// advance takes in a change of a node, and reports whether its NoExecute taints are others now.
func (n *nodes) advance(change nodecache.Change) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := change.After.Name
	known := n.tainted[name]
	next := known.advance(change, sight{at: now(), byServer: n.clock.Time()}, n.firstSightServes(name))
	if next == nil {
		delete(n.tainted, name)
	} else {
		n.tainted[name] = next
	}
	return !known.sameTaints(next)
}

// firstSightServes reports whether a taint of the node that has no timeAdded gets none. Then a gap of the watch does
// not end its countdown: there would be no end of countdowns that each list begins again.
func (n *nodes) firstSightServes(name string) bool {
	_, refused := n.unstampable.Load(name)
	return n.neverStamped || refused
}

func (n *nodes) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tainted, name)
	n.unstampable.Delete(name)
}

// notify tells the subscribers, who may ask what is known now.
func (n *nodes) notify(name string) {
	n.mu.RLock()
	subscribers := n.subscribers
	n.mu.RUnlock()
	for _, changed := range subscribers {
		changed(name)
	}
}

// node is what the eviction needs to know of a node with NoExecute taints. It is never modified.
type node struct {
	uid     types.UID
	version string // the resourceVersion of the object that said so
	taints  []run
	facts   facts     // the same, as the rule takes them
	changed time.Time // when this process saw the taints become what they are
}

// advance returns what is known of a node after a change of it was seen: a taint that goes on keeps its start. It is
// nil for a node without NoExecute taints, and works on nil.
func (n *node) advance(change nodecache.Change, seen sight, firstSightServes bool) *node {
	after := change.After
	if len(after.NoExecute) == 0 {
		return nil
	}
	next := &node{
		uid:     after.UID,
		version: after.ResourceVersion,
		taints:  make([]run, len(after.NoExecute)),
		changed: seen.at,
	}
	for i, taint := range after.NoExecute {
		next.taints[i] = begin(taint.Taint, sight{at: taint.FirstSeen, byServer: seen.byServer}, next.version)
		for _, known := range n.before(after) {
			switch {
			case !verdict.Continues(known.Taint.Taint, taint.Taint):
			case !change.Gap:
				next.taints[i] = next.taints[i].after(known)
			case firstSightServes && known.TimeAdded.IsZero() && taint.TimeAdded.IsZero():
				add := next.taints[i].add // it is not certain that it is the same, so nothing earlier is ever written
				next.taints[i] = next.taints[i].after(known)
				next.taints[i].add = add
			case known.outlasts(taint.Taint):
				next.taints[i] = next.taints[i].after(known.toTheSecond())
			}
		}
	}
	joinCauses(next.taints)
	for _, known := range next.taints {
		next.facts.add(known)
	}
	if n.sameTaints(next) {
		next.changed = n.changed
	}
	return next
}

// before returns the taints that were known of the same node. It works on nil.
func (n *node) before(after *nodecache.Node) []run {
	if n == nil || n.uid != after.UID {
		return nil
	}
	return n.taints
}

// sameTaints reports whether two states of a node have the same taints. Either may be nil.
func (n *node) sameTaints(other *node) bool {
	if n == nil || other == nil {
		return n == other
	}
	return n.uid == other.uid && slices.EqualFunc(n.taints, other.taints, run.same)
}

// now is the wall clock alone: deadlines are facts of the cluster's clocks, and must not follow
// the monotonic clock of one process.
func now() time.Time { return time.Now().Round(0) }
