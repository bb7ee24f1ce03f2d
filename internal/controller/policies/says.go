// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Says returns what the policies say about a pod that is due because of some of these taints of its node. Again is the
// next instant at which that can change by itself; zero if there is none.
func (f *Follower) Says(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) policy.Said {
	return f.says(pod, node, taints).Said
}

// Look returns what the policies say about the due pods of a node. Pods that lack places in paces or budgets wait for
// them in line until the next look, and no other pods of the node do.
func (f *Follower) Look(name string, node *nodecache.Node, due []*podcache.Pod) []policy.Said {
	said, waiting := make([]policy.Said, len(due)), map[types.UID]needs{}
	for i, pod := range due {
		d := f.says(pod, node, node.NoExecute)
		if said[i] = d.Said; !d.needs.none() {
			waiting[pod.UID] = d.needs
		}
	}
	f.line.set(name, node, waiting)
	return said
}

func (f *Follower) says(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) (d decision) {
	all, read := f.allRead()
	if !read {
		d.Answer = policy.Unread
	}
	if len(all) == 0 || !read {
		return d
	}
	is, selecting := f.selecting(all, pod, node)
	if len(selecting) == 0 {
		return d
	}
	causes, state := f.causes(pod, taints), f.state()
	f.noteHalts(pod, selecting, causes, state.isOpen)
	d = f.decide(f.asks(pod, node, is, selecting, causes), state)
	if d.Stays() && d.Why != policy.PodUnread { // that passes in a moment
		f.conditionMayChange()
	}
	return d
}

// asked is a pod about which the policies are asked.
type asked struct {
	pod       *podcache.Pod
	node      *nodecache.Node
	is        *policy.Pod
	selecting []*policy.Policy
	causes    []policy.Cause
	known     fact
	turns     time.Time // when the pod will count as unready; zero if it does not, or already does
}

// asks adds what the policies that select a pod need to know about its readiness and its budgets.
func (f *Follower) asks(
	pod *podcache.Pod, node *nodecache.Node, is *policy.Pod, selecting []*policy.Policy, causes []policy.Cause,
) asked {
	a := asked{pod: pod, node: node, is: is, selecting: selecting, causes: causes}
	if slices.ContainsFunc(selecting, (*policy.Policy).Asks) {
		a.known = f.facts.of(pod)
		a.turns = f.turnsUnready(a)
		is.Budgets = f.budgets.object(pod, a.known)
	}
	return a
}

// turnsUnready notes that a pod counts as unready, or returns when it will; zero if the pod and its node are ready, or
// if that is not known.
func (f *Follower) turnsUnready(a asked) (at time.Time) {
	since := f.unready.of(a.node)
	if !a.pod.Flags.Has(podcache.Ready) {
		since = timeline.Next(since, a.known.unready)
	}
	if since.IsZero() {
		return since
	}
	if at = since.Add(policy.UnreadyFor); at.After(f.config.Clock.Now()) {
		return at
	}
	a.is.Unready, a.is.Since = true, at
	return time.Time{}
}

// decision is what the policies say about a pod.
type decision struct {
	policy.Said

	selecting []*policy.Policy
	needs     needs                             // whether the pod has these places or not
	state     func(*policy.Policy) policy.State // what the policies remember about this pod
}

// decide asks the policies. Places are scarce, so a pod needs places in its budget and in paces only if nothing else
// objects: while another policy holds the pod, they would be wasted.
func (f *Follower) decide(a asked, state memory) (d decision) {
	now := f.config.Clock.Now()
	d.selecting, d.state = a.selecting, state
	d.Said = policy.Decide(a.selecting, a.is, a.causes, now, d.state)
	d.Again = timeline.Next(d.Again, a.turns)
	if d.Stays() {
		if d.Why == policy.PodUnread && a.is.Budgets.Objects == policy.PodUnread {
			f.facts.need(a.pod, a.known)
		}
		return d
	}
	d.needs = f.needs(a, now, state)
	if !f.line.has(d.needs, a.node, a.pod.UID) {
		a.is.Budgets, d.state = f.line.lacks(d.needs, a.is.Budgets.Name), policy.Full(state)
		d.Answer = policy.Decide(a.selecting, a.is, a.causes, now, d.state).Answer
	}
	return d
}

// needs are the places that a pod needs to leave.
type needs struct {
	paces  []*policy.Policy
	budget *budget // nil if it needs none
	due    time.Time
}

func (n needs) none() bool { return len(n.paces) == 0 && n.budget == nil }

func (f *Follower) needs(a asked, now time.Time, state memory) needs {
	needed := policy.NeedsOf(a.selecting, a.is, a.causes, now, state)
	all := needs{paces: needed.Paces, due: needed.Due}
	if needed.Budget {
		all.budget = a.known.budgets[0]
	}
	return all
}

// Begin takes a pod's places until End, when its eviction begins with a delete or a request to the Eviction API. It
// reports false if the pod may not leave that way now.
func (f *Follower) Begin(pod *podcache.Pod, node *nodecache.Node, asks bool) bool {
	d := f.says(pod, node, node.NoExecute)
	if d.Stays() || asks != (d.Step == policy.Ask) {
		return false
	}
	takes := needs{paces: policy.Counting(d.selecting, node.NoExecute)}
	if asks {
		takes.budget = d.needs.budget
	}
	return f.line.begin(d.needs, takes, node, pod.UID)
}

// End is called when an eviction that began has ended; it is told whether the pod is known to stay. If not, the pod
// counts as having left.
func (f *Follower) End(node string, pod types.UID, stays bool) { f.line.ended(node, pod, stays) }

// due returns the record of a pod, and whether the pod is due now.
func (f *Follower) due(uid types.UID) (*podcache.Pod, bool) {
	pod, ok := f.config.Pods.There(uid)
	if !ok {
		return nil, false
	}
	node, ok := f.config.Nodes.Get(pod.Node)
	return pod, ok && f.config.Rule.Decide(pod.Rule(), node.NoExecute).DueAt(f.config.Clock.Now())
}

// memory is what policies remember at an instant.
type memory func(*policy.Policy) policy.State

// state returns what policies remember now. The breaker of each counts at most once.
func (f *Follower) state() memory {
	states := map[*policy.Policy]policy.State{}
	return func(p *policy.Policy) policy.State {
		if _, counted := states[p]; p.Breaker() != nil && !counted {
			states[p] = f.demand.state(p)
		}
		return states[p]
	}
}

func (m memory) isOpen(p *policy.Policy) bool { return m(p).Open != "" }
