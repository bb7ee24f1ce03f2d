// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/instant"
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
	state  *nodecache.Node // nil without taints
	pods   map[types.UID]*triedPod
	last   builtin.NodeTries // as last said; its due is of this node
	looked time.Time         // when all its pods were seen last
}

type triedPod struct {
	builtin.Tries

	seen *podcache.Pod
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
		node.looked = at
		for _, pod := range node.pods {
			next = instant.Next(next, pod.Fires)
		}
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
		if node := b.byNode[before.Node]; node != nil && node.pods[before.UID] != nil {
			delete(node.pods, before.UID)
			b.report(before.Node, node, builtin.NodeTries{})
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
		node = &triedNode{pods: map[types.UID]*triedPod{}}
		b.byNode[name] = node
	}
	retainted := !node.state.SameTaints(state)
	if node.state = state; retainted {
		pods = b.pods.OnNode(name)
	}
	at := b.clock.Now()
	var news builtin.NodeTries
	for _, pod := range pods {
		known := node.pods[pod.UID]
		decides := retainted || known == nil || !podcache.SameTolerations(known.seen, pod)
		if known == nil {
			known = &triedPod{}
			node.pods[pod.UID] = known
		}
		known.seen = pod
		if began := known.See(b.decide(pod, state), decides, pod.Flags.Has(podcache.Terminating), at); !began.IsZero() {
			news.Begun++
			news.From = instant.Next(news.From, began)
		}
	}
	b.report(name, node, news)
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
func (b *builtInTries) report(name string, node *triedNode, news builtin.NodeTries) {
	is, idle := builtin.NodeTries{Node: name}, node.state == nil
	for _, pod := range node.pods {
		is.Count(&pod.Tries)
		idle = idle && !pod.Tried
	}
	if idle {
		delete(b.byNode, name)
	}
	if news.Begun == 0 && is == node.last {
		return
	}
	b.due += is.Due - node.last.Due
	node.last = is
	is.Begun, is.From, is.Due = news.Begun, news.From, b.due
	b.changed(is)
}
