// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
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

	// keepsReplaced: the states of a node that came and went between two decisions are kept for takeReplaced.
	keepsReplaced bool

	mu          sync.RWMutex
	tainted     map[string]*node
	replaced    map[string][]replaced
	subscribers []func(name string)
}

func newNodes(from *nodecache.Cache, clock *apicall.Clock) *nodes {
	return &nodes{cache: from, clock: clock, tainted: map[string]*node{}, replaced: map[string][]replaced{}}
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
// with those of the nodes that have some now.
func (n *nodes) subscribe(changed func(name string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subscribers = append(n.subscribers, changed)
	for name := range n.tainted {
		changed(name)
	}
	for name := range n.replaced {
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
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	name := change.After.Name
	known := n.tainted[name]
	if n.firstSightServes(name) {
		change.Gap = false
	}
	next := known.advance(change, sight{at: now(), byServer: n.clock.Time()})
	if next == nil {
		delete(n.tainted, name)
	} else {
		n.tainted[name] = next
	}
	if !known.sameTaints(next) {
		n.replace(name, known)
		n.notify(name)
	}
}

// replaced is a state of a node that another has replaced.
type replaced struct {
	state *node
	at    time.Time
}

// What is kept of a node's former states: so many at most, and for so long.
const (
	mostReplaced = 16
	replacedFor  = 10 * time.Minute
)

// replace keeps a state of a node that is not its state any more. A standby keeps them until it leads.
func (n *nodes) replace(name string, known *node) {
	if !n.keepsReplaced || known == nil {
		return
	}
	kept := n.replaced[name]
	n.replaced[name] = append(slices.Clone(kept[max(0, len(kept)-mostReplaced+1):]), replaced{known, now()})
}

// takeReplaced returns the states that a node has had since the last call, the newest of them.
func (n *nodes) takeReplaced(name string) []replaced {
	n.mu.Lock()
	defer n.mu.Unlock()
	kept := n.replaced[name]
	delete(n.replaced, name)
	return slices.DeleteFunc(kept, func(r replaced) bool { return now().Sub(r.at) > replacedFor })
}

// firstSightServes reports whether a taint of the node that has no timeAdded gets none. Then gaps of the watch count
// for nothing: there would be no end of countdowns that each list begins anew.
func (n *nodes) firstSightServes(name string) bool {
	_, refused := n.unstampable.Load(name)
	return n.neverStamped || refused
}

func (n *nodes) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tainted, name)
	delete(n.replaced, name)
	n.unstampable.Delete(name)
	n.notify(name)
}

func (n *nodes) notify(name string) {
	for _, changed := range n.subscribers {
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
func (n *node) advance(change nodecache.Change, seen sight) *node {
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
