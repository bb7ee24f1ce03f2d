// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

// lookForRules is how often to look whether the resource NodeTaintRule is installed by now.
const lookForRules = 30 * time.Second

// ruleWatch watches the rules. Without the resource, it waits until there is one.
type ruleWatch struct {
	client   client.WithWatch
	log      logr.Logger
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
}

// newRuleWatch calls changed with all rules whenever a rule came, went, or has another spec.
func newRuleWatch(from client.WithWatch, log logr.Logger, changed func(all []*v1alpha1.NodeTaintRule)) (
	*ruleWatch, error,
) {
	w := &ruleWatch{client: from, log: log}
	w.informer = cache.NewSharedIndexInformer(ruleLister(from), &v1alpha1.NodeTaintRule{}, 0, cache.Indexers{})
	if err := w.informer.SetWatchErrorHandlerWithContext(w.trouble); err != nil {
		return nil, err
	}
	var err error
	w.handler, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed(w.all()) },
		DeleteFunc: func(any) { changed(w.all()) },
		UpdateFunc: func(before, after any) {
			if !sameSpec(before.(*v1alpha1.NodeTaintRule), after.(*v1alpha1.NodeTaintRule)) {
				changed(w.all())
			}
		},
	})
	return w, err
}

// sameSpec reports whether two versions of a rule are to be followed alike.
func sameSpec(a, b *v1alpha1.NodeTaintRule) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.DeletionTimestamp.Equal(b.DeletionTimestamp)
}

func ruleLister(from client.WithWatch) cache.ListerWatcher {
	return listwatch.Bounded(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &v1alpha1.NodeTaintRuleList{}
			return list, from.List(ctx, list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, &v1alpha1.NodeTaintRuleList{}, &client.ListOptions{Raw: &options})
		},
	}, from)
}

// run watches until the context ends. Errors are retried with backoff, for ever.
func (w *ruleWatch) run(ctx context.Context) {
	if w.awaitResource(ctx) {
		w.informer.RunWithContext(ctx)
	}
}

// awaitResource waits until the resource is installed, and reports whether it is.
func (w *ruleWatch) awaitResource(ctx context.Context) bool {
	for told := false; ; told = true {
		err := w.client.List(ctx, &v1alpha1.NodeTaintRuleList{}, client.Limit(1))
		if ctx.Err() != nil {
			return false
		}
		if !notInstalled(err) {
			if told {
				w.log.Info("The resource NodeTaintRule is installed now")
			}
			return true // any other trouble is the watch's
		}
		if !told {
			w.log.Info("The resource NodeTaintRule is not installed, so there are no rules for other conditions of nodes; to have them, apply config/crd.yaml")
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lookForRules):
		}
	}
}

func notInstalled(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// trouble logs why rules cannot be watched. That the resource was taken away meanwhile is not worth a line per try.
func (w *ruleWatch) trouble(ctx context.Context, reflector *cache.Reflector, err error) {
	if notInstalled(err) {
		w.log.V(1).Info("The resource NodeTaintRule is no longer installed")
		return
	}
	cache.DefaultWatchErrorHandler(ctx, reflector, err)
}

// listed reports whether all rules are known.
func (w *ruleWatch) listed() bool { return w.handler.HasSynced() }

// get returns a rule. It must not be modified.
func (w *ruleWatch) get(name string) (*v1alpha1.NodeTaintRule, bool) {
	object, exists, err := w.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil, false
	}
	return object.(*v1alpha1.NodeTaintRule), true
}

// all returns every rule. They must not be modified.
func (w *ruleWatch) all() []*v1alpha1.NodeTaintRule {
	objects := w.informer.GetStore().List()
	all := make([]*v1alpha1.NodeTaintRule, 0, len(objects))
	for _, object := range objects {
		all = append(all, object.(*v1alpha1.NodeTaintRule))
	}
	return all
}
