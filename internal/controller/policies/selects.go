// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// selecting returns what policies need to know about a pod, without its readiness and its budgets, and the policies
// that select it.
func (f *Follower) selecting(all []followed, pod *podcache.Pod, node *nodecache.Node) (*policy.Pod, []*policy.Policy) {
	is := &policy.Pod{
		NodeLabels: labels.Set(node.Labels), Finished: pod.Flags.Has(podcache.Finished),
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

// demandOn returns what breakers count on a node. It notes which pods are halted, as a standby must know that too. The
// demand calls it.
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
		f.noteHalts(pod, selecting, causes, f.demand.isOpen)
		on.again = timeline.Next(on.again, nextDue(selecting, causes, f.config.Clock.Now()))
		if !slices.ContainsFunc(selecting, hasBreaker) {
			continue
		}
		if a := f.asks(pod, node, is, selecting, causes); on.add(a, f.config.Clock.Now()) {
			f.facts.need(pod, a.known)
		}
	}
	return on
}

// nextDue returns when a pod is due next, if one of its policies can halt it; zero if it is not.
func nextDue(selecting []*policy.Policy, causes []policy.Cause, now time.Time) (next time.Time) {
	if !slices.ContainsFunc(selecting, (*policy.Policy).MayHalt) {
		return next
	}
	for _, cause := range causes {
		if cause.Due.After(now) {
			next = timeline.Next(next, cause.Due)
		}
	}
	return next
}

func hasBreaker(p *policy.Policy) bool { return p.Breaker() != nil }

// add counts a pod for the breakers of its policies. It reports whether the pod must be read to tell whether it counts.
func (on *nodeDemand) add(a asked, now time.Time) (unread bool) {
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
		unread = on.of[p.Name].Add(a.is, said, 1) || unread
	}
	return unread
}

const (
	// countEvery is how long the number of pods that a policy selects is reused, because counting them walks over all
	// pods.
	countEvery = time.Minute
	// countAtMost is the shortest time between two counts for a breaker that a new number may keep closed.
	countAtMost = time.Second
)

// counts is how many pods each policy selected at an instant.
type counts struct {
	at   time.Time
	of   map[*policy.Policy]int
	lost map[*policy.Policy]int // pods that are no longer selected
}

// selected returns how many pods a policy selects on all nodes, or selected at most countEvery ago.
func (f *Follower) selected(p *policy.Policy) int {
	f.counting.Lock()
	defer f.counting.Unlock()
	if _, known := f.counts.of[p]; !known || f.config.Clock.Now().Sub(f.counts.at) >= countEvery {
		f.count()
	}
	return f.counts.of[p]
}

// selectedAtLeast returns how many pods a policy with a breaker selects, or fewer: an old number must not make a
// breaker milder. If an old number would open the breaker and a new one may not, it counts again. Pods that would leave
// are selected.
func (f *Follower) selectedAtLeast(p *policy.Policy, leave int) int {
	last := f.selected(p)
	f.counting.Lock()
	defer f.counting.Unlock()
	b := p.Breaker()
	least := func() int { return max(f.counts.of[p]-f.counts.lost[p], leave) }
	uncertain := leave > b.MaxDue(least()) && (leave <= b.MaxDue(last) || last < leave)
	if uncertain && f.config.Clock.Now().Sub(f.counts.at) >= countAtMost {
		f.count()
	}
	return least()
}

// count counts the pods that policies select. One walk counts for all policies. The caller holds the lock.
func (f *Follower) count() {
	all := f.all()
	was := f.counts.of
	f.counts = counts{
		at: f.config.Clock.Now(), of: make(map[*policy.Policy]int, len(all)), lost: map[*policy.Policy]int{},
	}
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
	if !maps.Equal(was, f.counts.of) {
		f.demand.wake()
	}
}

// lose notes that pods may no longer be selected by the policies that selected them on a node. A pod that a count has
// already left out is noted too, which makes breakers stricter until the next count.
func (f *Follower) lose(node *nodecache.Node, pods ...*podcache.Pod) {
	breakers := f.breakers()
	if len(breakers) == 0 {
		return
	}
	f.counting.Lock()
	defer f.counting.Unlock()
	for _, pod := range pods {
		_, selecting := f.selecting(breakers, pod, node)
		for _, one := range selecting {
			if f.counts.lost != nil {
				f.counts.lost[one]++
			}
		}
	}
}

// breakers returns the policies that have a breaker.
func (f *Follower) breakers() []followed {
	return slices.DeleteFunc(slices.Clone(f.all()), func(p followed) bool { return p.Breaker() == nil })
}

// noteHalts notes in the causes whether a pause or an open breaker keeps a pod that is due.
func (f *Follower) noteHalts(
	pod *podcache.Pod, selecting []*policy.Policy, causes []policy.Cause, open func(*policy.Policy) bool,
) {
	now := f.config.Clock.Now()
	for i := range causes {
		if cause := &causes[i]; !cause.Due.After(now) {
			on := policy.Halts(selecting, *cause, now, open)
			cause.Halt = f.sights.halt(pod.Node, pod.UID, cause.Taint, on, now)
		}
	}
}

// causes returns the taints because of which a pod must leave, now or later.
func (f *Follower) causes(pod *podcache.Pod, taints []verdict.Taint) []policy.Cause {
	causes := policy.CausesOf(f.config.Rule, pod.Rule(), taints)
	if len(causes) > 0 {
		f.sights.note(pod.Node, pod.UID, causes, f.config.Clock.Now())
	}
	return causes
}
