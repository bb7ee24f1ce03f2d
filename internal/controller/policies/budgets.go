// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	changed  func() // called when all budgets are known, or the permission has changed
	informer cache.SharedIndexInformer
	needed   chan struct{} // closed when a policy asks the Eviction API
	once     sync.Once

	forbidden atomic.Bool // no permission to ask the Eviction API
}

// newBudgets returns a follower of budgets that calls one function for each change of a budget, and another when all
// budgets are known or the permission has changed.
func newBudgets(
	client kubernetes.Interface, take func(before, after *policyv1.PodDisruptionBudget), changed func(),
) *budgets {
	b := &budgets{client: client, changed: changed, needed: make(chan struct{})}
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
		AddFunc: func(after any) { take(nil, after.(*policyv1.PodDisruptionBudget)) },
		UpdateFunc: func(before, after any) {
			take(before.(*policyv1.PodDisruptionBudget), after.(*policyv1.PodDisruptionBudget))
		},
		DeleteFunc: func(before any) {
			if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
				before = gone.Obj
			}
			take(before.(*policyv1.PodDisruptionBudget), nil)
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

// budgetChanged applies a change of a budget.
func (f *Follower) budgetChanged(before, after *policyv1.PodDisruptionBudget) {
	name := key(cmp.Or(before, after))
	f.with(func(e *policy.Engine, now time.Time) {
		if after == nil {
			e.DropBudget(name)
		} else {
			e.SetBudget(name, policy.Allowed(after), now)
		}
	})
	if spares := f.facts.budgetChanged(before, after); spares { // waiting pods may need no place any more
		var waiting []string
		f.with(func(e *policy.Engine, _ time.Time) { waiting = e.WaitingFor(name) })
		f.tell(waiting...)
	}
}

func key(object *policyv1.PodDisruptionBudget) string { return object.Namespace + "/" + object.Name }

// objection returns any objection to asking the Eviction API about a pod, regardless of what its budget allows now,
// given what is known about the pod.
func (f *Follower) objection(pod *podcache.Pod, known fact) policy.Budgets {
	ready := pod.Flags.Has(podcache.Ready)
	switch {
	case !ready && known.unready.IsZero():
		return policy.Budgets{Objects: policy.PodUnread}
	case f.budgets.forbidden.Load():
		return policy.Budgets{Objects: policy.NotPermitted}
	case pod.Flags&(podcache.Pending|podcache.Finished) != 0: // as [policy.IgnoresBudgets]
		return policy.Budgets{}
	case !f.budgets.informer.HasSynced():
		return policy.Budgets{Objects: policy.BudgetsUnread}
	case !f.facts.hasBudgets(pod.Namespace):
		return policy.Budgets{}
	case !known.known:
		return policy.Budgets{Objects: policy.PodUnread}
	case len(known.budgets) == 1 && !ready && f.facts.spares(known.budgets[0]):
		return policy.Budgets{}
	}
	var names []string
	for _, is := range known.budgets {
		names = append(names, is.name)
	}
	return policy.BudgetsNamed(names...)
}
