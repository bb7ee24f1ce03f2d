// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Policies may object to evictions. They must answer at once, and are asked concurrently.
type Policies interface {
	// DoneChecker tells when the policies are known. No pod is evicted before.
	cache.DoneChecker
	// Look returns what they say of the pods of a node that are due. If only some pods may leave at once, those of them
	// wait in line until the next look, and no others of the node do. So a node must be looked at again when its pods or
	// taints change.
	Look(name string, node *nodecache.Node, due []*podcache.Pod) []policy.Said
	// Says returns what they say of a pod that is due because of some of these taints of its node.
	Says(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) policy.Said
	// Begin says that the eviction of a pod begins, by a delete or by asking the Eviction API, and takes its places. It
	// reports false if the pod may not leave that way now. End says that an eviction that began has ended, and whether it
	// is known that the pod stays.
	Begin(pod *podcache.Pod, node *nodecache.Node, asks bool) bool
	End(node string, pod types.UID, stays bool)
	// Subscribe calls a function with the name of each node that must be looked at again, because the answers about its
	// pods may be others now.
	Subscribe(changed func(node string))
}

// heldPod is a pod that is due and that a policy holds.
type heldPod struct {
	*podcache.Pod

	answer policy.Answer
	said   []policy.Why // the reasons for which an event says that it is held
}

// tellHeld says of each pod that is held why, once for each reason.
func (d *decider) tellHeld(node string, held []heldPod) {
	now := make(map[types.UID]heldPod, len(held))
	for _, pod := range held {
		pod.said = d.held[node][pod.UID].said
		if !slices.Contains(pod.said, pod.answer.Why) {
			pod.said = append(pod.said, pod.answer.Why)
			d.events.held(pod.Pod, pod.answer)
		}
		now[pod.UID] = pod
	}
	if d.held[node] = now; len(now) == 0 {
		delete(d.held, node)
	}
}

// objection is who objects to evictions, and for which reason.
type objection struct {
	policy string
	why    policy.Why
}

// objections counts the held pods by who holds them.
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

// begins reports whether the eviction of a pod may begin. If so, its places in paces and budgets are taken until ends.
func (x *executor) begins(t *try, pod *podcache.Pod) bool {
	node, ok := x.nodes.get(pod.Node)
	if x.judge.policies == nil || !ok {
		return true
	}
	t.begun = x.judge.policies.Begin(pod, node, x.asks)
	return t.begun
}

// ends gives back the places of a try if its pod stays. A pod counts as one that has left while it is not known what
// happened to it.
func (x *executor) ends(t *try) {
	if t.begun {
		_, there := x.pods.There(t.UID)
		x.judge.policies.End(t.node, t.UID, there && !t.unanswered)
	}
}
