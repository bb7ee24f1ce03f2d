// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package custom watches the objects of one of Taintkeeper's own resources, which may not be installed.
package custom

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

// lookAgain is how often to check whether the resource has been installed.
const lookAgain = 30 * time.Second

// Resource is a resource to watch.
type Resource[T client.Object] struct {
	Kind   string
	Object T                        // an empty object
	List   func() client.ObjectList // returns an empty list
	// Without says what is missing while the resource is not installed, and how to install it.
	Without string
	// Required makes Run return an error if the resource is installed and the API server forbids listing it.
	Required bool
}

// Watch watches the objects. If the resource is not installed, it waits for it.
type Watch[T client.Object] struct {
	resource Resource[T]
	client   client.WithWatch
	log      logr.Logger
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
	absent   chan struct{} // closed when the resource was found not to be installed
	once     sync.Once
}

// New returns a watch that calls a function with all objects whenever one is added or deleted, or its spec changes. Run
// must be called once.
func New[T client.Object](from client.WithWatch, resource Resource[T], log logr.Logger, changed func(all []T)) (
	*Watch[T], error,
) {
	w := &Watch[T]{resource: resource, client: from, log: log, absent: make(chan struct{})}
	w.informer = cache.NewSharedIndexInformer(w.lister(), resource.Object, 0, cache.Indexers{})
	if err := w.informer.SetWatchErrorHandlerWithContext(w.trouble); err != nil {
		return nil, err
	}
	var err error
	w.handler, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed(w.All()) },
		DeleteFunc: func(any) { changed(w.All()) },
		UpdateFunc: func(before, after any) {
			if !SameSpec(before.(client.Object), after.(client.Object)) {
				changed(w.All())
			}
		},
	})
	return w, err
}

// SameSpec reports whether two versions are of the same object with the same spec, and neither or both are being
// deleted.
func SameSpec(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp())
}

func (w *Watch[T]) lister() cache.ListerWatcher {
	return listwatch.Bounded(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := w.resource.List()
			return list, w.client.List(ctx, list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return w.client.Watch(ctx, w.resource.List(), &client.ListOptions{Raw: &options})
		},
	}, w.client)
}

// Run watches until the context ends. Errors are retried with backoff indefinitely, with one exception: if the resource
// is Required, it returns the error of a first list that is forbidden twice, half a minute apart.
func (w *Watch[T]) Run(ctx context.Context) error {
	if err := w.awaitResource(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	w.informer.RunWithContext(ctx)
	return nil
}

// awaitResource waits until the resource is installed.
func (w *Watch[T]) awaitResource(ctx context.Context) error {
	refused := false
	for {
		err := w.client.List(ctx, w.resource.List(), client.Limit(1))
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case notInstalled(err):
			w.miss()
			refused = false
		case w.resource.Required && apierrors.IsForbidden(err):
			if refused { // an API server that has just started may not know the permissions yet
				return err
			}
			refused = true
		default: // the watch handles any other error
			if w.wasAbsent() {
				w.log.Info("The resource " + w.resource.Kind + " is installed now")
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
	}
}

// miss notes that the resource is not installed, and logs that once.
func (w *Watch[T]) miss() {
	w.once.Do(func() {
		w.log.Info("The resource " + w.resource.Kind + " is not installed, " + w.resource.Without)
		close(w.absent)
	})
}

func (w *Watch[T]) wasAbsent() bool {
	select {
	case <-w.absent:
		return true
	default:
		return false
	}
}

func notInstalled(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// trouble logs why the objects cannot be watched. It may be the first to learn that the resource is not installed, if
// the API server answered with another error before.
func (w *Watch[T]) trouble(ctx context.Context, reflector *cache.Reflector, err error) {
	if notInstalled(err) {
		w.miss()
		return
	}
	cache.DefaultWatchErrorHandler(ctx, reflector, err)
}

// Listed reports whether all objects are known.
func (w *Watch[T]) Listed() bool { return w.handler.HasSynced() }

// Checker reports when all objects are known.
func (w *Watch[T]) Checker() cache.DoneChecker { return w.handler.HasSyncedChecker() }

// Absent is closed once the resource was found not to be installed.
func (w *Watch[T]) Absent() <-chan struct{} { return w.absent }

// Get returns an object. It must not be modified.
func (w *Watch[T]) Get(name string) (T, bool) {
	object, exists, err := w.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		var none T
		return none, false
	}
	return object.(T), true
}

// All returns all objects. They must not be modified.
func (w *Watch[T]) All() []T {
	objects := w.informer.GetStore().List()
	all := make([]T, 0, len(objects))
	for _, object := range objects {
		all = append(all, object.(T))
	}
	return all
}
