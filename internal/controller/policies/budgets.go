// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// checkRightEvery is how often Taintkeeper checks its right to use the Eviction API.
const checkRightEvery = time.Minute

// budgets follows the PodDisruptionBudgets once a policy asks the Eviction API. It is safe for concurrent use.
type budgets struct {
	client   kubernetes.Interface
	line     *line                 // has the budgets, and the pods that wait for them
	labeled  func() bool           // whether records of pods have the labels by which budgets select
	selected func()                // called when budgets select other pods, or the permission has changed
	tell     func(nodes ...string) // called when waiting pods on nodes may no longer need a place
	informer cache.SharedIndexInformer
	needed   chan struct{} // closed when a policy asks the Eviction API
	once     sync.Once

	forbidden atomic.Bool // no permission to ask the Eviction API
}

// budget is a PodDisruptionBudget.
type budget struct {
	*policy.Allowance

	name          string // NAMESPACE/NAME
	selector      labels.Selector
	sparesUnready bool
}

// newBudgets returns a follower of budgets that calls functions when they select other pods, and when waiting pods may
// no longer need a place.
func newBudgets(
	client kubernetes.Interface, line *line, labeled func() bool, selected func(), tell func(nodes ...string),
) *budgets {
	b := &budgets{
		client: client, line: line, labeled: labeled, selected: selected, tell: tell, needed: make(chan struct{}),
	}
	of := client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll)
	calls := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return of.List(ctx, options)
		},
		WatchFuncWithContext: of.Watch,
	}
	b.informer = cache.NewSharedIndexInformer(listwatch.Bounded(calls, client), &policyv1.PodDisruptionBudget{}, 0, nil)
	_ = b.informer.SetTransform(trimBudget) // cannot fail before it runs
	change := func(before, after *policyv1.PodDisruptionBudget) {
		other, waiting := b.take(before, after)
		if other {
			selected()
		} else if len(waiting) > 0 {
			tell(waiting...)
		}
	}
	_, _ = b.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // cannot fail before it runs
		AddFunc: func(after any) { change(nil, after.(*policyv1.PodDisruptionBudget)) },
		UpdateFunc: func(before, after any) {
			change(before.(*policyv1.PodDisruptionBudget), after.(*policyv1.PodDisruptionBudget))
		},
		DeleteFunc: func(before any) {
			if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
				before = gone.Obj
			}
			change(before.(*policyv1.PodDisruptionBudget), nil)
		},
	})
	return b
}

// trimBudget drops the unused parts of a budget.
func trimBudget(object any) (any, error) {
	if is, ok := object.(*policyv1.PodDisruptionBudget); ok {
		is.ManagedFields, is.Annotations, is.Labels, is.Status.DisruptedPods, is.Status.Conditions = nil, nil, nil, nil, nil
	}
	return object, nil
}

// need starts the watch of budgets.
func (b *budgets) need() { b.once.Do(func() { close(b.needed) }) }

func (b *budgets) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.needed:
	}
	var parts stage.Parts
	parts.InEveryReplica(
		func(ctx context.Context) error { b.informer.RunWithContext(ctx); return nil },
		func(ctx context.Context) error {
			if cache.WaitFor(ctx, "", b.informer.HasSyncedChecker()) {
				b.selected()
			}
			<-ctx.Done()
			return nil
		},
		b.checkRight,
	)
	return parts.Run(ctx)
}

// checkRight checks, until the context ends, whether Taintkeeper may use the Eviction API. If the API server does not
// answer, the last answer remains valid.
func (b *budgets) checkRight(ctx context.Context) error {
	for ctx.Err() == nil {
		question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "eviction"},
		}}
		answer, err := b.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
		if err == nil && b.forbidden.Swap(!answer.Status.Allowed) == answer.Status.Allowed {
			b.selected()
		}
		select {
		case <-ctx.Done():
		case <-time.After(checkRightEvery):
		}
	}
	return nil
}

// take applies a change of a budget. It reports whether it selects other pods now, and the nodes of waiting pods that
// may no longer need a place in it.
func (b *budgets) take(before, after *policyv1.PodDisruptionBudget) (other bool, waiting []string) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	defer b.line.wake()
	in := cmp.Or(before, after).Namespace
	all := b.line.budgets[in]
	if after == nil {
		b.line.budgets[in] = slices.DeleteFunc(all, func(is *budget) bool { return is.name == key(before) })
		return true, nil
	}
	i := slices.IndexFunc(all, func(is *budget) bool { return is.name == key(after) })
	if i < 0 {
		i, all = len(all), append(all, &budget{Allowance: policy.NewAllowance(b.line.now()), name: key(after)})
		b.line.budgets[in] = all
	}
	all[i].Allow(policy.Allowed(after))
	if spares := policy.SparesUnready(after); spares != all[i].sparesUnready {
		all[i].sparesUnready = spares
		waiting = b.line.waiting.NodesOf(all[i])
	}
	if before != nil && equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector) {
		return false, waiting
	}
	selector, err := metav1.LabelSelectorAsSelector(after.Spec.Selector)
	if err != nil { // the API server refuses such a budget
		selector = labels.Nothing()
	}
	all[i].selector = selector
	return true, nil
}

func key(object *policyv1.PodDisruptionBudget) string { return object.Namespace + "/" + object.Name }

// keys returns the keys by which budgets select pods.
func (b *budgets) keys() (keys []string) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	for _, of := range b.line.budgets {
		for _, is := range of {
			requirements, _ := is.selector.Requirements()
			for _, r := range requirements {
				keys = append(keys, r.Key())
			}
		}
	}
	return keys
}

// of returns the budgets of a pod.
func (b *budgets) of(pod *podcache.Pod) (of []*budget) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	for _, is := range b.line.budgets[pod.Namespace] {
		if is.selector.Matches(pod.Labels()) {
			of = append(of, is)
		}
	}
	return of
}

// one returns the budget of a pod that has one.
func (b *budgets) one(pod *podcache.Pod) *budget {
	if of := b.of(pod); len(of) == 1 {
		return of[0]
	}
	return nil
}

// object returns any objection to asking the Eviction API about a pod, regardless of what its budget allows now.
func (b *budgets) object(pod *podcache.Pod) policy.Budgets {
	if b.forbidden.Load() {
		return policy.Budgets{Objects: policy.NotPermitted}
	}
	if pod.Flags&(podcache.Pending|podcache.Finished) != 0 { // as [policy.IgnoresBudgets]
		return policy.Budgets{}
	}
	if !b.informer.HasSynced() || !b.labeled() {
		return policy.Budgets{Objects: policy.BudgetsUnread}
	}
	of := b.of(pod)
	if len(of) == 1 && !pod.Flags.Has(podcache.Ready) && b.spares(of[0]) {
		return policy.Budgets{}
	}
	var names []string
	for _, is := range of {
		names = append(names, is.name)
	}
	return policy.BudgetsNamed(names...)
}

// spares reports whether a budget lets pods go that are not ready.
func (b *budgets) spares(is *budget) bool {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	return is.sparesUnready
}
