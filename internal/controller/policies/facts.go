// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// facts knows of due pods what their records do not say: which PodDisruptionBudgets select them, and since when they
// have not been ready. It reads a pod from the API server once a decision depends on that, and again when the pod has
// changed. It forgets pods that are no longer due. Memory and calls therefore follow what is due, no matter by which
// labels budgets select. Until a pod is read again, what was read last counts: the Eviction API has the last word.
//
// Each namespace has a reader of its own, which also matches labels, so no namespace waits for the pods or the
// selectors of another. Safe for concurrent use.
type facts struct {
	f     *Follower
	work  chan struct{} // signals that a namespace needs a reader
	calls chan struct{} // has room for the calls in flight

	mu      sync.Mutex
	in      map[string]*duePods  // by namespace
	budgets map[string][]*budget // by namespace
}

// budget is a PodDisruptionBudget.
type budget struct {
	name          string // NAMESPACE/NAME
	selector      labels.Selector
	sparesUnready bool
}

const (
	// readsInFlight is how many pods are read at the same time: as many as evictions leave of the API server's 98 seats.
	readsInFlight = 2
	// followEvery is how often pods that have changed are found. A pod that changes all the time is read no more often.
	followEvery = time.Second
	// readAgainAfter is how long the reader of a namespace waits after a failed read; the wait doubles.
	readAgainAfter = time.Second
)

// duePods are the due pods of a namespace.
type duePods struct {
	pods    map[types.UID]*fact
	toRead  []types.UID
	changed []*budget // to match again, because they select other pods or are gone
	served  bool      // has a reader
}

// fact is what is known about a pod.
type fact struct {
	known   bool
	labels  labels.Set
	budgets []*budget // that select it; replaced, never modified
	unready time.Time // since when it has not been ready; zero if that must be read

	pending       bool   // waits for a read, or is being read
	turned        int    // how often it has become ready or unready
	seen, version uint64 // of its record when it was read, and of what was read
}

func newFacts(f *Follower) *facts {
	return &facts{
		f: f, work: make(chan struct{}, 1), calls: make(chan struct{}, readsInFlight),
		in: map[string]*duePods{}, budgets: map[string][]*budget{},
	}
}

// of returns what is known about a pod.
func (k *facts) of(pod *podcache.Pod) fact {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.get(pod); f != nil {
		return *f
	}
	return fact{}
}

// get returns what is known about a pod, or nil. The caller holds the lock.
func (k *facts) get(pod *podcache.Pod) *fact {
	if in := k.in[pod.Namespace]; in != nil {
		return in.pods[pod.UID]
	}
	return nil
}

// need requests a read of a due pod, for a decision that was based on what was known then. If more is known by now,
// another decision follows from that. If the pod is gone, it is soon forgotten: a decision can outlive its pod.
func (k *facts) need(pod *podcache.Pod, then fact) {
	k.mu.Lock()
	defer k.mu.Unlock()
	in := k.in[pod.Namespace]
	if in == nil {
		in = &duePods{pods: map[types.UID]*fact{}}
		k.in[pod.Namespace] = in
	}
	f := in.pods[pod.UID]
	if f == nil {
		f = &fact{}
		in.pods[pod.UID] = f
	}
	if f.known == then.known && f.version == then.version && f.turned == then.turned {
		k.enqueue(in, pod.UID)
	}
}

// enqueue requests a read. The caller holds the lock.
func (k *facts) enqueue(in *duePods, uid types.UID) {
	if f := in.pods[uid]; !f.pending {
		f.pending = true
		in.toRead = append(in.toRead, uid)
		k.wake(in)
	}
}

func (k *facts) wake(in *duePods) {
	if in.served {
		return
	}
	select {
	case k.work <- struct{}{}:
	default:
	}
}

// turns notes that a pod has become ready or unready.
func (k *facts) turns(pod *podcache.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.get(pod); f != nil {
		f.unready = time.Time{}
		f.turned++
	}
}

// budgetChanged applies a change of a budget. It reports whether the budget spares unready pods now that it did not
// spare, or the other way round.
func (k *facts) budgetChanged(before, after *policyv1.PodDisruptionBudget) (spares bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	in, name := cmp.Or(before, after).Namespace, key(cmp.Or(before, after))
	i := slices.IndexFunc(k.budgets[in], func(is *budget) bool { return is.name == name })
	switch {
	case after == nil && i < 0:
		return false
	case after == nil:
		is := k.budgets[in][i]
		if k.budgets[in] = slices.Delete(k.budgets[in], i, i+1); len(k.budgets[in]) == 0 {
			delete(k.budgets, in)
		}
		k.match(in, is)
		return false
	case i < 0:
		i = len(k.budgets[in])
		k.budgets[in] = append(k.budgets[in], &budget{name: name})
	}
	is := k.budgets[in][i]
	spares, is.sparesUnready = is.sparesUnready, policy.SparesUnready(after)
	if before == nil || !equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector) {
		selector, err := metav1.LabelSelectorAsSelector(after.Spec.Selector)
		if err != nil { // the API server refuses such a budget
			selector = labels.Nothing()
		}
		is.selector = selector
		k.match(in, is)
	}
	return spares != is.sparesUnready
}

// match makes the reader of a namespace match a budget with all pods again. The caller holds the lock.
func (k *facts) match(namespace string, is *budget) {
	if in := k.in[namespace]; in != nil && !slices.Contains(in.changed, is) {
		in.changed = append(in.changed, is)
		k.wake(in)
	}
}

// selectors returns how the budgets of a namespace select pods. Selectors can be large, so nobody holds the lock while
// they are matched.
func (k *facts) selectors(namespace string) map[*budget]labels.Selector {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[*budget]labels.Selector, len(k.budgets[namespace]))
	for _, is := range k.budgets[namespace] {
		all[is] = is.selector
	}
	return all
}

// budgetsOf returns what is known about the budgets of a pod.
func (k *facts) budgetsOf(pod *podcache.Pod, known fact) policy.Budgets {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(k.budgets[pod.Namespace]) == 0:
		return policy.Budgets{}
	case !known.known:
		return policy.Budgets{Objects: policy.PodUnread}
	case len(known.budgets) == 1 && !pod.Flags.Has(podcache.Ready) && known.budgets[0].sparesUnready:
		return policy.Budgets{}
	}
	var names []string
	for _, is := range known.budgets {
		names = append(names, is.name)
	}
	return policy.BudgetsNamed(names...)
}

// readPods reads pods and matches budgets until the context ends.
func (k *facts) readPods(ctx context.Context) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	follow := time.NewTicker(followEvery)
	defer follow.Stop()
	for {
		for namespace, in := range k.unserved() {
			readers.Go(func() { k.serve(ctx, namespace, in) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.work:
		case <-follow.C:
			k.follow()
		}
	}
}

// unserved returns the namespaces that need a reader, and notes that they have one.
func (k *facts) unserved() map[string]*duePods {
	k.mu.Lock()
	defer k.mu.Unlock()
	need := map[string]*duePods{}
	for namespace, in := range k.in {
		if !in.served && len(in.toRead)+len(in.changed) > 0 {
			in.served, need[namespace] = true, in
		}
	}
	return need
}

// follow requests reads of pods that have changed or could not be read, and forgets those that are no longer due.
func (k *facts) follow() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for namespace, in := range k.in {
		for uid, f := range in.pods {
			switch pod, due := k.f.due(uid); {
			case !due:
				delete(in.pods, uid)
			case !f.known, pod.Version != f.seen && pod.Version != f.version:
				k.enqueue(in, uid)
			}
		}
		if len(in.pods) == 0 && !in.served {
			delete(k.in, namespace)
		}
	}
}

// serve is the reader of a namespace, for as long as there is something to do.
func (k *facts) serve(ctx context.Context, namespace string, in *duePods) {
	failures := 0
	for ctx.Err() == nil {
		uid, changed := k.next(in)
		if len(changed) > 0 {
			k.f.notify(k.rematch(namespace, in, changed)...)
			continue
		}
		if uid == "" {
			return
		}
		pod, due := k.f.due(uid)
		if !due {
			k.end(in, uid, func(*fact) { delete(in.pods, uid) })
			continue
		}
		if err := k.read(ctx, in, pod); err == nil {
			failures = 0
			continue
		} else if failures++; failures == 1 && ctx.Err() == nil {
			k.f.config.Logger.Info("Cannot read a due pod, will retry; it stays meanwhile",
				"pod", klog.KRef(pod.Namespace, pod.Name), "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(apicall.Doubled(readAgainAfter, failures, apicall.LastBackoff)):
		}
	}
}

// next returns what a reader does next: the budgets to match again, or the pod to read. If it returns neither, the
// namespace has no reader any more.
func (k *facts) next(in *duePods) (uid types.UID, changed []*budget) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if changed, in.changed = in.changed, nil; len(changed) > 0 {
		return "", changed
	}
	for len(in.toRead) > 0 {
		uid, in.toRead = in.toRead[0], in.toRead[1:]
		if f := in.pods[uid]; f != nil && f.pending { // not forgotten since
			return uid, nil
		}
	}
	in.served = false
	return "", nil
}

// read reads a pod, and notes what it finds. A pod that is gone although its record is still there remains unread.
func (k *facts) read(ctx context.Context, in *duePods, pod *podcache.Pod) error {
	turned := k.of(pod).turned
	live, err := k.live(ctx, pod)
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID:
		k.end(in, pod.UID, func(*fact) {})
		return nil
	case err != nil:
		k.end(in, pod.UID, func(*fact) { k.enqueue(in, pod.UID) })
		return err
	}
	var budgets []*budget
	for is, selector := range k.selectors(pod.Namespace) {
		if selector.Matches(labels.Set(live.Labels)) {
			budgets = append(budgets, is)
		}
	}
	unready := k.unready(live)
	k.end(in, pod.UID, func(f *fact) {
		f.known, f.labels, f.budgets = true, live.Labels, budgets
		f.seen, f.version = pod.Version, pod.AsOf(live).Version
		if f.unready.IsZero() && f.turned == turned {
			f.unready = unready
		}
	})
	k.f.notify(pod.Node)
	return nil
}

// live reads a pod from the API server.
func (k *facts) live(ctx context.Context, pod *podcache.Pod) (*corev1.Pod, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case k.calls <- struct{}{}:
	}
	defer func() { <-k.calls }()
	if err := apicall.Token(ctx, k.f.config.Limiter); err != nil {
		return nil, err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return k.f.config.Core.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
}

// unready returns since when a pod has not been ready. If it has become ready meanwhile, the answer is now.
func (k *facts) unready(live *corev1.Pod) time.Time {
	for i := range live.Status.Conditions {
		if c := &live.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
			return k.f.config.Clock.See().Since(&c.LastTransitionTime)
		}
	}
	return k.f.config.Clock.Now()
}

// end notes the end of a read.
func (k *facts) end(in *duePods, uid types.UID, note func(*fact)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := in.pods[uid]; f != nil {
		f.pending = false
		note(f)
	}
}

// rematch matches budgets with all pods of a namespace, without the lock. It returns the nodes of those for which that
// is news.
func (k *facts) rematch(namespace string, in *duePods, changed []*budget) (nodes []string) {
	selectors, known := k.selectors(namespace), map[types.UID]fact{}
	k.mu.Lock()
	for uid, f := range in.pods {
		if f.known {
			known[uid] = *f
		}
	}
	k.mu.Unlock()
	for uid, of := range known {
		selected := slices.Clone(of.budgets)
		for _, is := range changed {
			selected = slices.DeleteFunc(selected, func(other *budget) bool { return other == is })
			if selector, ok := selectors[is]; ok && selector.Matches(of.labels) {
				selected = append(selected, is)
			}
		}
		if slices.Equal(selected, of.budgets) {
			continue
		}
		k.mu.Lock()
		if f := in.pods[uid]; f != nil { // only this reader changes what is known of it
			f.budgets = selected
		}
		k.mu.Unlock()
		if pod, due := k.f.due(uid); due {
			nodes = append(nodes, pod.Node)
		}
	}
	return nodes
}

// unreadyNodes knows since when nodes have not been ready.
type unreadyNodes map[string]time.Time

// of returns since when a node has not been ready; zero if it is ready. Of a node that was not ready when it was first
// seen, its condition says so.
func (u unreadyNodes) of(node *nodecache.Node, clock *timeline.Clock) time.Time {
	ready := readiness.Condition(node.Node, corev1.NodeReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return time.Time{}
	}
	since, known := u[node.Name]
	if !known {
		if since = clock.Now(); ready != nil {
			since = clock.See().Since(&ready.LastTransitionTime)
		}
		u[node.Name] = since
	}
	return since
}

// follow follows whether a node is ready.
func (u unreadyNodes) follow(before, after *nodecache.Node, now time.Time) {
	switch {
	case after == nil || readiness.IsReady(after.Node):
		delete(u, cmp.Or(before, after).Name)
	case before != nil && readiness.IsReady(before.Node):
		u[after.Name] = now
	}
}
