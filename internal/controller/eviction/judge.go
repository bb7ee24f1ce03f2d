// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// judge decides which pods must leave, and when, on the timeline of its clock, and whether policies object to that.
type judge struct {
	rule     verdict.Rule
	clock    *timeline.Clock
	policies Policies // nil if there are none
}

// over returns the verdict on a pod on a node with the given taints, if it must leave. Only their kubelet can end
// mirror pods (kubernetes/kubernetes#96363), and terminating pods are leaving already.
func (j judge) over(pod *podcache.Pod, tainted []verdict.Taint) (verdict.Verdict, bool) {
	if pod.Flags&(podcache.Mirror|podcache.Terminating) != 0 {
		return verdict.Verdict{}, false
	}
	v := j.rule.Decide(pod.Rule(), tainted)
	return v, v.Leaves
}

// due reports whether a pod on a node with the given taints must leave now.
func (j judge) due(pod *podcache.Pod, tainted []verdict.Taint) bool {
	v, _ := j.over(pod, tainted)
	return v.DueAt(j.clock.Now())
}

// look returns what the policies say about the due pods of a node.
func (j judge) look(name string, node *nodecache.Node, due []*podcache.Pod) []policy.Said {
	if j.policies == nil {
		return make([]policy.Said, len(due))
	}
	return j.policies.Look(name, node, due)
}

// says returns what the policies say about a pod that is due because of some of these taints of its node.
func (j judge) says(pod *podcache.Pod, node *nodecache.Node, tainted []verdict.Taint) policy.Said {
	if j.policies == nil {
		return policy.Said{}
	}
	return j.policies.Says(pod, node, tainted)
}

// held reports whether a pod is due on its node, according to the caches, and whether a policy holds it, and why.
func (j judge) held(pod *podcache.Pod, nodes nodes) (due, held bool, _ policy.Answer) {
	node, ok := nodes.get(pod.Node)
	if !ok || !j.due(pod, node.NoExecute) {
		return false, false, policy.Answer{}
	}
	said := j.says(pod, node, node.NoExecute)
	return true, said.Stays(), said.Answer
}

// nodes are the nodes with NoExecute taints, as the cache shows them. It is safe for concurrent use.
type nodes struct{ *nodecache.Cache }

// get returns a node, if it has NoExecute taints.
func (n nodes) get(name string) (*nodecache.Node, bool) {
	node, ok := n.Get(name)
	return node, ok && len(node.NoExecute) > 0
}

// exists reports whether there is a node of that name, tainted or not.
func (n nodes) exists(name string) bool {
	_, exists := n.Get(name)
	return exists
}

// subscribe calls the function with the name of every node whose NoExecute taints change or that is deleted, and of
// each node that has some now. The function may call get and exists.
func (n nodes) subscribe(changed func(name string)) {
	n.Subscribe(func(change nodecache.Change) {
		switch before, after := change.Before, change.After; {
		case after == nil:
			changed(before.Name)
		case !before.SameTaints(after):
			changed(after.Name)
		}
	})
}

// count returns how many nodes have NoExecute taints.
func (n nodes) count() int {
	count := 0
	for _, node := range n.All() {
		if len(node.NoExecute) > 0 {
			count++
		}
	}
	return count
}

// VerdictsConfig configures Verdicts.
type VerdictsConfig struct {
	// Nodes are the nodes. The caller runs the cache.
	Nodes *nodecache.Cache
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Clock is the timeline of the process. The default is a Clock of its own, which sees no Date headers.
	Clock *timeline.Clock
}

// Verdicts are the part of an Evictor that observes. They follow the nodes, say which pods must leave them and when,
// and change nothing. They are safe for concurrent use.
type Verdicts struct {
	nodes nodes
	judge judge
}

// NewVerdicts makes Verdicts from the cache of nodes.
func NewVerdicts(config VerdictsConfig) *Verdicts {
	if config.Clock == nil {
		config.Clock = &timeline.Clock{}
	}
	return &Verdicts{nodes: nodes{config.Nodes}, judge: judge{rule: config.Rule, clock: config.Clock}}
}

// Subscribe calls the function with the name of every node whose NoExecute taints change, and with those of the nodes
// that have some now. The function must return quickly.
func (v *Verdicts) Subscribe(changed func(node string)) { v.nodes.subscribe(changed) }

// Listed is when the newest list of nodes began. What happened between two lists was not seen as it happened.
func (v *Verdicts) Listed() time.Time { return v.nodes.Listed() }

// Exists reports whether there is a node of that name.
func (v *Verdicts) Exists(node string) bool { return v.nodes.exists(node) }

// Taints returns the NoExecute taints of a node, with the instants from which they count. They are read, never
// modified.
func (v *Verdicts) Taints(node string) []verdict.Taint {
	tainted, ok := v.nodes.get(node)
	if !ok {
		return nil
	}
	return tainted.NoExecute
}

// Over returns the verdict on a pod on its node, if it must leave.
func (v *Verdicts) Over(pod *podcache.Pod) (verdict.Verdict, bool) {
	tainted, ok := v.nodes.get(pod.Node)
	if !ok {
		return verdict.Verdict{}, false
	}
	return v.judge.over(pod, tainted.NoExecute)
}
