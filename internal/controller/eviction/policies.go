// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Policies may object to evictions. They must answer at once, and are asked concurrently.
type Policies interface {
	// DoneChecker reports when the policies are known. No pod is evicted before then.
	cache.DoneChecker
	// Known reports whether all policies are known now. While they are not, they hold every pod.
	Known() bool
	// Look returns what they say about the due pods of a node. If only some pods may leave at a time, these pods wait in
	// line until the next look, and no other pods of the node do. A node must therefore be looked at again when its pods
	// or taints change.
	Look(name string, node *nodecache.Node, due []*podcache.Pod) []policy.Said
	// Says returns what they say about a pod that is due because of some of these taints of its node.
	Says(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) policy.Said
	// Begin takes the places of a pod when its eviction begins, with a delete or a request to the Eviction API. It
	// reports false if the pod may not leave that way now. End is called when an eviction that began has ended; it is
	// told whether the pod is known to stay.
	Begin(pod *podcache.Pod, node *nodecache.Node, asks bool) bool
	End(node string, pod types.UID, stays bool)
	// Subscribe calls a function with the name of each node that must be looked at again, because the answers about its
	// pods may have changed.
	Subscribe(changed func(node string))
}

// heldPod is a due pod that a policy holds.
type heldPod struct {
	*podcache.Pod

	answer policy.Answer
	due    time.Time
	said   []policy.Why // the reasons that events have already reported
}

// tellHeld reports for each held pod why it is held, once for each reason. That a pod must be read first passes in a
// moment, so there is no event for it.
func (d *decider) tellHeld(node string, held []heldPod) {
	now := make(map[types.UID]heldPod, len(held))
	for _, pod := range held {
		pod.said = d.held[node][pod.UID].said
		if pod.answer.Why != policy.PodUnread && !slices.Contains(pod.said, pod.answer.Why) {
			pod.said = append(pod.said, pod.answer.Why)
			d.events.held(pod.Pod, d.verdict(pod.Pod), pod.answer)
		}
		now[pod.UID] = pod
	}
	if d.held[node] = now; len(now) == 0 {
		delete(d.held, node)
	}
}

// verdict decides about a pod from the cache. It is empty if the pod's node is gone.
func (d *decider) verdict(pod *podcache.Pod) (v verdict.Verdict) {
	if node, ok := d.nodes.get(pod.Node); ok {
		v, _ = d.judge.over(pod, node.NoExecute)
	}
	return v
}

// objection is the policy that objects to evictions, and its reason.
type objection struct {
	policy string
	why    policy.Why
}

// objections counts the held pods by objection.
func (d *decider) objections() map[objection]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := map[objection]int{}
	for _, pods := range d.held {
		for _, pod := range pods {
			counts[objection{pod.answer.Policy, pod.answer.Why}]++
		}
	}
	return counts
}

// begins reports whether the eviction of a pod may begin. If so, it takes places in paces and budgets until ends is
// called.
func (x *executor) begins(t *try, pod *podcache.Pod) bool {
	node, ok := x.nodes.get(pod.Node)
	if x.judge.policies == nil || !ok {
		return true
	}
	t.begun = x.judge.policies.Begin(pod, node, t.asks)
	return t.begun
}

// ends gives back the places of a try if its pod stays. As long as it is not known what happened to a pod, it counts as
// having left.
func (x *executor) ends(t *try) {
	if t.begun {
		_, there := x.pods.There(t.UID)
		x.judge.policies.End(t.node, t.UID, there && !t.unanswered)
	}
}
