// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// leaving is what an answer about a pod was based on.
type leaving struct {
	pod   *podcache.Pod
	known fact
}

// leaver returns what the engine needs to know about a pod that must leave its node because of some of its taints; nil
// if no policy selects it. The caller holds the lock.
func (f *Follower) leaver(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) *policy.Leaver {
	is := f.selected(f.policies, pod, node)
	if is == nil {
		return nil
	}
	is.Causes = policy.CausesOf(f.config.Rule, pod.Rule(), taints)
	var known fact
	if slices.ContainsFunc(is.By, (*policy.Policy).Asks) {
		known = f.facts.of(pod)
		is.NotReadySince(f.unreadySince(pod, node, known), f.config.Clock.Now())
		is.Budgets = f.objection(pod, known)
	}
	is.Memo = leaving{pod, known}
	return is
}

// selected returns a pod on its node with those policies that select it; nil if none does. It does not say whether the
// pod is ready, nor what its budgets are. The caller holds the lock.
func (f *Follower) selected(all []followed, pod *podcache.Pod, node *nodecache.Node) *policy.Leaver {
	is := policy.Pod{NodeLabels: labels.Set(node.Labels), Finished: pod.Flags.Has(podcache.Finished)}
	is.NamespaceLabels, is.NamespaceEnds = f.namespace(pod.Namespace)
	podLabels := pod.Labels()
	var selecting []*policy.Policy
	for _, p := range all {
		if is.Labels = nil; p.labeled { // otherwise the record lacks labels by which the policy selects
			is.Labels = podLabels
		}
		if p.Mismatch(&is) == "" {
			selecting = append(selecting, p.Policy)
		}
	}
	if len(selecting) == 0 {
		return nil
	}
	return &policy.Leaver{
		UID: pod.UID, Node: node.Name, Zone: node.Labels[corev1.LabelTopologyZone], Taints: node.NoExecute,
		By: selecting, Pod: &is,
	}
}

// unreadySince returns since when a pod or its node has not been ready; zero if both are, or if that is not known. The
// caller holds the lock.
func (f *Follower) unreadySince(pod *podcache.Pod, node *nodecache.Node, known fact) time.Time {
	since := f.unready.of(node, f.config.Clock)
	if !pod.Flags.Has(podcache.Ready) {
		since = instant.Next(since, known.unready)
	}
	return since
}

// due returns the record of a pod, and whether the pod is due now.
func (f *Follower) due(uid types.UID) (*podcache.Pod, bool) {
	pod, ok := f.config.Pods.There(uid)
	if !ok {
		return nil, false
	}
	node, ok := f.config.Nodes.Get(pod.Node)
	return pod, ok && f.config.Rule.Decide(pod.Rule(), node.NoExecute).DueAt(f.config.Clock.Now())
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
	came bool                   // pods may have come, or been selected, since
}

// countSelected returns how many pods a policy selects on all nodes, or selected at most countEvery ago. The caller
// holds the lock.
func (f *Follower) countSelected(p *policy.Policy, now time.Time) int {
	if _, known := f.counts.of[p]; !known || now.Sub(f.counts.at) >= countEvery {
		f.count(now)
	}
	return f.counts.of[p]
}

// Selected implements [policy.Cluster]. It returns how many pods a policy with a breaker selects, or fewer: an old
// number must not make a breaker milder. If an old number would open the breaker and a new one may not, it counts
// again: before it opens, if pods have come, and otherwise at most every countAtMost. Pods that would leave are
// selected.
func (c cluster) Selected(p *policy.Policy, leave int, now time.Time) int {
	last, b := c.f.countSelected(p, now), p.Breaker()
	least := func() int { return max(c.f.counts.of[p]-c.f.counts.lost[p], leave) }
	if leave <= b.MaxDue(least()) {
		return least()
	}
	opens := c.f.counts.came && !c.f.engine.IsOpen(p)
	uncertain := leave <= b.MaxDue(last) || last < leave
	if opens || uncertain && now.Sub(c.f.counts.at) >= countAtMost {
		c.f.count(now)
	}
	return least()
}

// count counts the pods that policies select. One walk counts for all policies. The caller holds the lock.
func (f *Follower) count(now time.Time) {
	was := f.counts.of
	f.counts = counts{at: now, of: make(map[*policy.Policy]int, len(f.policies)), lost: map[*policy.Policy]int{}}
	for _, p := range f.policies {
		f.counts.of[p.Policy] = 0
	}
	for _, pod := range f.config.Pods.All() {
		if node, ok := f.config.Nodes.Get(pod.Node); ok && !pod.Flags.Has(podcache.Terminating) {
			f.countOne(f.counts.of, f.policies, pod, node)
		}
	}
	if !maps.Equal(was, f.counts.of) {
		f.wake()
	}
}

// lose notes that pods may no longer be selected by the policies that selected them on a node. A pod that a count has
// already left out is noted too, which makes breakers stricter until the next count. The caller holds the lock.
func (f *Follower) lose(node *nodecache.Node, pods ...*podcache.Pod) {
	breakers := slices.DeleteFunc(slices.Clone(f.policies), func(p followed) bool { return p.Breaker() == nil })
	if len(breakers) == 0 || f.counts.lost == nil {
		return
	}
	for _, pod := range pods {
		f.countOne(f.counts.lost, breakers, pod, node)
	}
}

// countOne counts a pod for each policy that selects it. The caller holds the lock.
func (f *Follower) countOne(of map[*policy.Policy]int, all []followed, pod *podcache.Pod, node *nodecache.Node) {
	if is := f.selected(all, pod, node); is != nil {
		for _, p := range is.By {
			of[p]++
		}
	}
}

// kept knows which labels the records of pods have. Records have few: only those whose keys a policy names. They have
// the labels of a new key only after all pods have been listed again.
type kept struct {
	wanted []string // sorted
	known  []string // keys of wanted that all records have
	lists  int      // how many lists were requested
}

// keysOf returns the keys by which policies select pods, in order.
func keysOf(all []followed) (keys []string) {
	for _, p := range all {
		keys = append(keys, p.PodLabels()...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// want sets the wanted keys. It reports whether they have changed, and whether a list must bring the labels of some.
func (k *kept) want(keys []string) (changed, list bool) {
	changed = !slices.Equal(k.wanted, keys)
	k.wanted = keys
	k.known = slices.DeleteFunc(slices.Clone(k.known), func(key string) bool { return !slices.Contains(keys, key) })
	list = changed && len(k.known) < len(keys)
	if list {
		k.lists++
	}
	return changed, list
}

// listed notes that the records have the labels that were wanted when a list was requested. It reports whether that is
// news: no other list is under way.
func (k *kept) listed(number int) bool {
	if number != k.lists {
		return false
	}
	k.known = k.wanted
	return true
}

// mark returns the policies, and notes in each whether all labels by which it selects are known.
func (k *kept) mark(all []followed) []followed {
	marked := slices.Clone(all)
	for i := range marked {
		unknown := func(key string) bool { return !slices.Contains(k.known, key) }
		marked[i].labeled = !slices.ContainsFunc(marked[i].PodLabels(), unknown)
	}
	return marked
}
