// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// selecting returns what policies need to know about a pod, without its budgets, and the policies that select it.
func (f *Follower) selecting(all []followed, pod *podcache.Pod, node *nodecache.Node) (*policy.Pod, []*policy.Policy) {
	is := &policy.Pod{
		NodeLabels: labels.Set(node.Labels),
		Finished:   pod.Flags.Has(podcache.Finished), Unready: !readiness.IsReady(node.Node),
	}
	is.NamespaceLabels, is.NamespaceEnds = f.namespaces.get(pod.Namespace)
	podLabels := pod.Labels()
	var selecting []*policy.Policy
	for _, p := range all {
		if is.Labels = nil; p.labeled { // otherwise the record lacks labels by which the policy selects
			is.Labels = podLabels
		}
		if p.Mismatch(is) == "" {
			selecting = append(selecting, p.Policy)
		}
	}
	return is, selecting
}

// demandOn returns what breakers count on a node.
func (f *Follower) demandOn(name string) (on nodeDemand) {
	node, ok := f.config.Nodes.Get(name)
	if !ok || len(node.NoExecute) == 0 {
		return on
	}
	all := f.all()
	on.of = map[string]*policy.Demand{}
	for _, pod := range f.config.Pods.OnNode(name) {
		if pod.Flags&(podcache.Mirror|podcache.Terminating) != 0 {
			continue
		}
		causes := f.causes(pod, node.NoExecute)
		if len(causes) == 0 {
			continue
		}
		is, selecting := f.selecting(all, pod, node)
		on.add(f.asks(pod, node, is, selecting, causes), f.config.Clock.Now())
	}
	return on
}

// add counts a pod for the breakers of its policies.
func (on *nodeDemand) add(a asked, now time.Time) {
	for _, p := range a.selecting {
		if p.Breaker() == nil {
			continue
		}
		on.again = timeline.Next(on.again, a.turns)
		said, counts := p.Counts(a.selecting, a.is, a.causes, now)
		on.again = timeline.Next(on.again, said.Again)
		if !counts {
			continue
		}
		if on.of[p.Name] == nil {
			on.of[p.Name] = &policy.Demand{}
		}
		on.of[p.Name].Add(a.is, said, 1)
	}
}

// countEvery is how long the number of pods that a policy selects is reused, because counting them walks over all pods.
const countEvery = time.Minute

// counts is how many pods each policy selected at an instant.
type counts struct {
	at time.Time
	of map[*policy.Policy]int
}

// selected returns how many pods a policy selects, on all nodes. One walk counts for all policies. The last count is
// reused for countEvery, unless it is smaller than the number of due pods, all of which are selected.
func (f *Follower) selected(p *policy.Policy, due int) int {
	f.counting.Lock()
	defer f.counting.Unlock()
	now := f.config.Clock.Now()
	if pods, known := f.counts.of[p]; known && pods >= due && now.Sub(f.counts.at) < countEvery {
		return pods
	}
	all := f.all()
	f.counts = counts{at: now, of: make(map[*policy.Policy]int, len(all))}
	for _, one := range all {
		f.counts.of[one.Policy] = 0
	}
	for _, pod := range f.config.Pods.All() {
		node, ok := f.config.Nodes.Get(pod.Node)
		if !ok || pod.Flags.Has(podcache.Terminating) {
			continue
		}
		_, selecting := f.selecting(all, pod, node)
		for _, one := range selecting {
			f.counts.of[one]++
		}
	}
	return f.counts.of[p]
}

// causes returns the taints because of which a pod must leave, now or later.
func (f *Follower) causes(pod *podcache.Pod, taints []verdict.Taint) []policy.Cause {
	return policy.CausesOf(f.config.Rule, pod.Rule(), taints)
}
