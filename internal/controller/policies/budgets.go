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
	facts    *facts                // knows which budgets select due pods
	changed  func()                // called when all budgets are known, or the permission has changed
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

// newBudgets returns a follower of budgets that calls functions when all budgets are known or the permission has
// changed, and when waiting pods may no longer need a place.
func newBudgets(
	client kubernetes.Interface, line *line, facts *facts, changed func(), tell func(nodes ...string),
) *budgets {
	b := &budgets{client: client, line: line, facts: facts, changed: changed, tell: tell, needed: make(chan struct{})}
	of := client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll)
	calls := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return of.List(ctx, options)
		},
		WatchFuncWithContext: of.Watch,
	}
	b.informer = cache.NewSharedIndexInformer(listwatch.Bounded(calls, client), &policyv1.PodDisruptionBudget{}, 0, nil)
	_ = b.informer.SetTransform(trimBudget)                            // cannot fail before it runs
	_, _ = b.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // cannot fail before it runs
		AddFunc: func(after any) { b.take(nil, after.(*policyv1.PodDisruptionBudget)) },
		UpdateFunc: func(before, after any) {
			b.take(before.(*policyv1.PodDisruptionBudget), after.(*policyv1.PodDisruptionBudget))
		},
		DeleteFunc: func(before any) {
			if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
				before = gone.Obj
			}
			b.take(before.(*policyv1.PodDisruptionBudget), nil)
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
				b.changed()
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
			b.changed()
		}
		select {
		case <-ctx.Done():
		case <-time.After(checkRightEvery):
		}
	}
	return nil
}

// take applies a change of a budget.
func (b *budgets) take(before, after *policyv1.PodDisruptionBudget) {
	is, selects, waiting := b.line.take(before, after)
	if selects && is != nil {
		b.facts.match(cmp.Or(before, after).Namespace, is)
	}
	if len(waiting) > 0 {
		b.tell(waiting...)
	}
}

// take applies a change of a budget. It reports whether the budget selects other pods now, and the nodes of waiting
// pods that may no longer need a place in it.
func (l *line) take(before, after *policyv1.PodDisruptionBudget) (is *budget, selects bool, waiting []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.wake()
	in, name := cmp.Or(before, after).Namespace, key(cmp.Or(before, after))
	i := slices.IndexFunc(l.budgets[in], func(is *budget) bool { return is.name == name })
	switch {
	case after == nil:
		return l.drop(in, i), true, nil
	case i < 0:
		is = &budget{Allowance: policy.NewAllowance(l.now()), name: name}
		l.budgets[in] = append(l.budgets[in], is)
	default:
		is = l.budgets[in][i]
	}
	is.Allow(policy.Allowed(after))
	if spares := policy.SparesUnready(after); spares != is.sparesUnready {
		is.sparesUnready, waiting = spares, l.waiting.NodesOf(is)
	}
	if before != nil && equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector) {
		return is, false, waiting
	}
	selector, err := metav1.LabelSelectorAsSelector(after.Spec.Selector)
	if err != nil { // the API server refuses such a budget
		selector = labels.Nothing()
	}
	is.selector = selector
	return is, true, waiting
}

// drop drops a budget of a namespace. The caller holds the lock.
func (l *line) drop(namespace string, i int) (is *budget) {
	if i < 0 {
		return nil
	}
	is = l.budgets[namespace][i]
	if l.budgets[namespace] = slices.Delete(l.budgets[namespace], i, i+1); len(l.budgets[namespace]) == 0 {
		delete(l.budgets, namespace)
	}
	return is
}

// selectors returns how the budgets of a namespace select pods.
func (l *line) selectors(namespace string) map[*budget]labels.Selector {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[*budget]labels.Selector, len(l.budgets[namespace]))
	for _, is := range l.budgets[namespace] {
		all[is] = is.selector
	}
	return all
}

// selecting returns the budgets of a namespace that select a pod with these labels. Selectors can be large, so it does
// not hold the lock while it matches.
func (l *line) selecting(namespace string, pod labels.Set) (of []*budget) {
	for is, selector := range l.selectors(namespace) {
		if selector.Matches(pod) {
			of = append(of, is)
		}
	}
	return of
}

// hasBudgets reports whether a namespace has any budget.
func (l *line) hasBudgets(namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.budgets[namespace]) > 0
}

// spares reports whether a budget lets pods go that are not ready.
func (l *line) spares(is *budget) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return is.sparesUnready
}

func key(object *policyv1.PodDisruptionBudget) string { return object.Namespace + "/" + object.Name }

// object returns any objection to asking the Eviction API about a pod, regardless of what its budget allows now, given
// what is known about the pod.
func (b *budgets) object(pod *podcache.Pod, known fact) policy.Budgets {
	ready := pod.Flags.Has(podcache.Ready)
	switch {
	case !ready && known.unready.IsZero():
		return policy.Budgets{Objects: policy.PodUnread}
	case b.forbidden.Load():
		return policy.Budgets{Objects: policy.NotPermitted}
	case pod.Flags&(podcache.Pending|podcache.Finished) != 0: // as [policy.IgnoresBudgets]
		return policy.Budgets{}
	case !b.informer.HasSynced():
		return policy.Budgets{Objects: policy.BudgetsUnread}
	case !b.line.hasBudgets(pod.Namespace):
		return policy.Budgets{}
	case !known.known:
		return policy.Budgets{Objects: policy.PodUnread}
	case len(known.budgets) == 1 && !ready && b.line.spares(known.budgets[0]):
		return policy.Budgets{}
	}
	var names []string
	for _, is := range known.budgets {
		names = append(names, is.name)
	}
	return policy.BudgetsNamed(names...)
}
