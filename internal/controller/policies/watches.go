// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// lazyInformer is an informer that runs once it is needed.
type lazyInformer struct {
	informer cache.SharedIndexInformer
	needed   chan struct{}
	once     *sync.Once
}

// newLazyInformer returns an informer of objects. It bounds the calls of a client.
func newLazyInformer(
	calls *cache.ListWatch, client any, object runtime.Object, handler cache.ResourceEventHandler,
) lazyInformer {
	l := lazyInformer{
		informer: cache.NewSharedIndexInformer(listwatch.Bounded(calls, client), object, 0, nil),
		needed:   make(chan struct{}), once: &sync.Once{},
	}
	_, _ = l.informer.AddEventHandler(handler) // cannot fail before it runs
	return l
}

// need makes the informer run.
func (l *lazyInformer) need() { l.once.Do(func() { close(l.needed) }) }

// runWhenNeeded runs the informer from when it is needed until the context ends.
func (l *lazyInformer) runWhenNeeded(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-l.needed:
		l.informer.RunWithContext(ctx)
	}
	return nil
}

// newNamespaces returns the metadata of namespaces, which are needed once there is a policy.
func (f *Follower) newNamespaces() lazyInformer {
	list := func() *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		return list
	}
	from := f.config.Client
	return newLazyInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			all := list()
			return all, from.List(ctx, all, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, list(), &client.ListOptions{Raw: &options})
		},
	}, from, &metav1.PartialObjectMetadata{}, cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { f.notifyAll() },
		UpdateFunc: func(before, after any) {
			was, is := before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata)
			if !equality.Semantic.DeepEqual(was.Labels, is.Labels) || !is.DeletionTimestamp.Equal(was.DeletionTimestamp) {
				f.notifyAll()
			}
		},
	})
}

// namespace returns the labels of a namespace, nil if the watch has not brought it, and whether it is being deleted.
func (f *Follower) namespace(name string) (_ labels.Labels, ends bool) {
	object, exists, err := f.namespaces.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil, false
	}
	is := object.(*metav1.PartialObjectMetadata)
	return labels.Set(is.Labels), is.DeletionTimestamp != nil
}

// newBudgets returns the PodDisruptionBudgets, which are needed once a policy asks the Eviction API.
func (f *Follower) newBudgets() lazyInformer {
	of := f.config.Core.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll)
	budgets := newLazyInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return of.List(ctx, options)
		},
		WatchFuncWithContext: of.Watch,
	}, f.config.Core, &policyv1.PodDisruptionBudget{}, cache.ResourceEventHandlerFuncs{
		AddFunc: func(after any) { f.budgetChanged(nil, after.(*policyv1.PodDisruptionBudget)) },
		UpdateFunc: func(before, after any) {
			f.budgetChanged(before.(*policyv1.PodDisruptionBudget), after.(*policyv1.PodDisruptionBudget))
		},
		DeleteFunc: func(before any) {
			if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
				before = gone.Obj
			}
			f.budgetChanged(before.(*policyv1.PodDisruptionBudget), nil)
		},
	})
	_ = budgets.informer.SetTransform(func(object any) (any, error) { // cannot fail before it runs
		if is, ok := object.(*policyv1.PodDisruptionBudget); ok { // without its unused parts
			is.ManagedFields, is.Annotations, is.Labels, is.Status.DisruptedPods, is.Status.Conditions = nil, nil, nil, nil, nil
		}
		return object, nil
	})
	return budgets
}

// checkEvictionRight checks, once budgets are needed, whether Taintkeeper may use the Eviction API. If the API server
// does not answer, the last answer remains valid. It also notifies once all budgets are known.
func (f *Follower) checkEvictionRight(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-f.budgets.needed:
	}
	reviews := f.config.Core.AuthorizationV1().SelfSubjectAccessReviews()
	synced := f.budgets.informer.HasSyncedChecker().Done()
	for ctx.Err() == nil {
		question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "eviction"},
		}}
		answer, err := reviews.Create(ctx, question, metav1.CreateOptions{})
		if err == nil && f.forbidden.Swap(!answer.Status.Allowed) == answer.Status.Allowed {
			f.notifyAll()
		}
		select {
		case <-ctx.Done():
		case <-synced:
			synced = nil
			f.notifyAll()
		case <-time.After(checkRightEvery):
		}
	}
	return nil
}

// checkRightEvery is how often Taintkeeper checks its right to use the Eviction API.
const checkRightEvery = time.Minute

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
		f.notify(waiting...)
	}
}

func key(object *policyv1.PodDisruptionBudget) string { return object.Namespace + "/" + object.Name }

// objection returns any objection to asking the Eviction API about a pod, regardless of what its budget allows now,
// given what is known about the pod.
func (f *Follower) objection(pod *podcache.Pod, known fact) policy.Budgets {
	switch {
	case !pod.Flags.Has(podcache.Ready) && known.unready.IsZero():
		return policy.Budgets{Objects: policy.PodUnread}
	case f.forbidden.Load():
		return policy.Budgets{Objects: policy.NotPermitted}
	case pod.Flags&(podcache.Pending|podcache.Finished) != 0: // as [policy.IgnoresBudgets]
		return policy.Budgets{}
	case !f.budgets.informer.HasSynced():
		return policy.Budgets{Objects: policy.BudgetsUnread}
	}
	return f.facts.budgetsOf(pod, known)
}
