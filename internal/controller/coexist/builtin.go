// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// builtInTries follows which pods the built-in tries to evict, on all nodes; [builtin.Tries] has the rule. It runs in
// every replica from the start, so that a new leader knows what happened before. It is safe for concurrent use.
type builtInTries struct {
	rule    verdict.Rule
	clock   *timeline.Clock
	nodes   *nodecache.Cache
	pods    *podcache.Cache
	changed func(builtin.NodeTries) // is called with what is new about a node, one call at a time

	mu     sync.Mutex
	byNode map[string]*triedNode
	due    int // pods of all nodes
}

// triedNode is a node with NoExecute taints, or with pods that were tried.
type triedNode struct {
	builtin.Node[*podcache.Pod]

	state  *nodecache.Node // nil without taints
	looked time.Time       // when all its pods were seen last
}

func newBuiltInTries(config AccountConfig, changed func(builtin.NodeTries)) *builtInTries {
	b := &builtInTries{
		rule: config.Rule, clock: config.Clock, nodes: config.Nodes, pods: config.Pods, changed: changed,
		byNode: map[string]*triedNode{},
	}
	b.nodes.SubscribeTaints(func(name string) { b.seeNode(name) })
	b.pods.Subscribe(b.seeChange)
	return b
}

// seeNode sees a node and all its pods as they are now, and returns when the built-in's next timer there fires; zero if
// there is none.
func (b *builtInTries) seeNode(name string) (next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.clock.Now()
	b.see(name, b.pods.OnNode(name))
	if node := b.byNode[name]; node != nil {
		node.looked, next = at, node.Fires()
	}
	return next
}

// seeNodeSince is seeNode, unless the node has been seen since an instant.
func (b *builtInTries) seeNodeSince(name string, since time.Time) {
	b.mu.Lock()
	node := b.byNode[name]
	seen := node != nil && !node.looked.Before(since)
	b.mu.Unlock()
	if !seen {
		b.seeNode(name)
	}
}

// seeChange sees a change of a pod.
func (b *builtInTries) seeChange(change podcache.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before := change.Before; before != nil && (change.After == nil || change.After.Node != before.Node) {
		if node := b.byNode[before.Node]; node != nil && node.Forget(before.UID) {
			b.report(before.Node, node)
		}
	}
	if change.After != nil {
		b.see(change.After.Node, []*podcache.Pod{change.After})
	}
}

// see sees some pods of a node, or all if its taints have changed. The caller holds the lock.
func (b *builtInTries) see(name string, pods []*podcache.Pod) {
	state, tainted := b.nodes.Tainted(name)
	if !tainted {
		state = nil
	}
	node := b.byNode[name]
	if node == nil {
		if state == nil {
			return
		}
		node = &triedNode{}
		b.byNode[name] = node
	}
	retainted := !node.state.SameTaints(state)
	if node.state = state; retainted {
		pods = b.pods.OnNode(name)
	}
	at := b.clock.Now()
	for _, pod := range pods {
		looks := func(before *podcache.Pod) bool { return retainted || !podcache.SameTolerations(before, pod) }
		node.See(pod.UID, pod, b.decide(pod, state), looks, pod.Flags.Has(podcache.Terminating), at)
	}
	b.report(name, node)
}

// decide returns the verdict on a pod, whether it is terminating or not.
func (b *builtInTries) decide(pod *podcache.Pod, on *nodecache.Node) verdict.Verdict {
	if on == nil {
		return verdict.Verdict{}
	}
	return pod.Verdict(b.rule, on.NoExecute)
}

// report passes on what is new about a node, and forgets the node if it has neither taints nor pods that were tried.
// The caller holds the lock.
func (b *builtInTries) report(name string, node *triedNode) {
	if node.state == nil && !node.Tried() {
		delete(b.byNode, name)
	}
	if is, news := node.Report(name, &b.due); news {
		b.changed(is)
	}
}
