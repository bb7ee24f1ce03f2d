// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
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

// leaving is what an answer about a pod was based on.
type leaving struct {
	pod   *podcache.Pod
	known fact
}

// leaver returns what the engine needs to know about a pod that must leave its node because of some of its taints; nil
// if no policy selects it. The caller holds the lock.
func (f *Follower) leaver(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) *policy.Leaver {
	is := f.selected(pod, node)
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

// selected returns a pod on its node with the policies that select it; nil if none does. The caller holds the lock.
func (f *Follower) selected(pod *podcache.Pod, node *nodecache.Node) *policy.Leaver {
	is, selecting := f.selecting(f.policies, pod, node)
	if len(selecting) == 0 {
		return nil
	}
	return &policy.Leaver{
		UID: pod.UID, Node: node.Name, Zone: node.Labels[corev1.LabelTopologyZone], Taints: node.NoExecute,
		By: selecting, Pod: is,
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

// selectedAtLeast returns how many pods a policy with a breaker selects, or fewer: an old number must not make a
// breaker milder. If an old number would open the breaker and a new one may not, it counts again: before it opens, if
// pods have come, and otherwise at most every countAtMost. Pods that would leave are selected. The caller holds the
// lock.
func (f *Follower) selectedAtLeast(p *policy.Policy, leave int, now time.Time) int {
	last, b := f.countSelected(p, now), p.Breaker()
	least := func() int { return max(f.counts.of[p]-f.counts.lost[p], leave) }
	if leave <= b.MaxDue(least()) {
		return least()
	}
	opens := f.counts.came && !f.engine.IsOpen(p)
	uncertain := leave <= b.MaxDue(last) || last < leave
	if opens || uncertain && now.Sub(f.counts.at) >= countAtMost {
		f.count(now)
	}
	return least()
}

// count counts the pods that policies select. One walk counts for all policies. The caller holds the lock.
func (f *Follower) count(now time.Time) {
	all, was := f.policies, f.counts.of
	f.counts = counts{at: now, of: make(map[*policy.Policy]int, len(all)), lost: map[*policy.Policy]int{}}
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
		f.wake()
	}
}

// lose notes that pods may no longer be selected by the policies that selected them on a node. A pod that a count has
// already left out is noted too, which makes breakers stricter until the next count. The caller holds the lock.
func (f *Follower) lose(node *nodecache.Node, pods ...*podcache.Pod) {
	breakers := slices.DeleteFunc(slices.Clone(f.policies), func(p followed) bool { return p.Breaker() == nil })
	if len(breakers) == 0 {
		return
	}
	for _, pod := range pods {
		_, selecting := f.selecting(breakers, pod, node)
		for _, one := range selecting {
			if f.counts.lost != nil {
				f.counts.lost[one]++
			}
		}
	}
}

// kept knows which labels the records of pods have. Records have few: only those whose keys a policy names. They have
// the labels of a new key only after all pods have been listed again.
type kept struct {
	wanted []string            // sorted
	known  map[string]struct{} // keys that all records have
	lists  int                 // how many lists were requested
}

// keysOf returns the keys by which policies select pods, in order.
func keysOf(all []followed) []string {
	keys := map[string]struct{}{}
	for _, p := range all {
		for _, key := range p.PodLabels() {
			keys[key] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// want sets the wanted keys. It reports whether they have changed, and whether a list must bring the labels of some.
func (k *kept) want(keys []string) (changed, list bool) {
	changed = !slices.Equal(k.wanted, keys)
	k.wanted = keys
	maps.DeleteFunc(k.known, func(key string, _ struct{}) bool { return !slices.Contains(keys, key) })
	list = changed && len(k.known) < len(keys)
	if list {
		k.lists++
	}
	return changed, list
}

// listed notes that the records have the labels that were wanted when a list was requested. It reports whether that is
// news.
func (k *kept) listed(number int) bool {
	if number != k.lists { // another list is under way
		return false
	}
	k.known = make(map[string]struct{}, len(k.wanted))
	for _, key := range k.wanted {
		k.known[key] = struct{}{}
	}
	return true
}

// mark returns the policies, and notes in each whether all labels by which it selects are known.
func (k *kept) mark(all []followed) []followed {
	marked := slices.Clone(all)
	for i := range marked {
		marked[i].labeled = k.have(marked[i].PodLabels())
	}
	return marked
}

// have reports whether the records have the labels of some keys.
func (k *kept) have(keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		_, known := k.known[key]
		return !known
	})
}

// namespaces knows the labels of namespaces, and which of them are being deleted, once there is a policy. It is safe
// for concurrent use.
type namespaces struct {
	informer cache.SharedIndexInformer
	needed   chan struct{} // closed when there is a policy
	once     sync.Once
}

// newNamespaces returns a watch of namespaces' metadata that calls a function when a change can affect what policies
// say.
func newNamespaces(from client.WithWatch, changed func()) *namespaces {
	list := func() *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		return list
	}
	calls := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			all := list()
			return all, from.List(ctx, all, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, list(), &client.ListOptions{Raw: &options})
		},
	}
	n := &namespaces{needed: make(chan struct{})}
	n.informer = cache.NewSharedIndexInformer(listwatch.Bounded(calls, from), &metav1.PartialObjectMetadata{}, 0, nil)
	_, _ = n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // cannot fail before it runs
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			was, is := before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata)
			if !equality.Semantic.DeepEqual(was.Labels, is.Labels) || !is.DeletionTimestamp.Equal(was.DeletionTimestamp) {
				changed()
			}
		},
	})
	return n
}

// need starts the watch of namespaces.
func (n *namespaces) need() { n.once.Do(func() { close(n.needed) }) }

func (n *namespaces) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-n.needed:
		n.informer.RunWithContext(ctx)
	}
	return nil
}

// get returns the labels of a namespace, nil if the watch has not brought it, and whether it is being deleted.
func (n *namespaces) get(name string) (_ labels.Labels, ends bool) {
	object, exists, err := n.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil, false
	}
	is := object.(*metav1.PartialObjectMetadata)
	return labels.Set(is.Labels), is.DeletionTimestamp != nil
}
