// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
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
