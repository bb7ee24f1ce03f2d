// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package custom watches the objects of one of Taintkeeper's own resources, which may not be installed, and may go and
// come back while Taintkeeper runs.
package custom

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

const (
	// lookAgain is how often to check whether the resource is installed. After other failures, the wait doubles up to
	// lastWait.
	lookAgain = time.Second
	lastWait  = 8 * time.Second
	// unknownFor is how long an API server that has just started may not know the permissions yet.
	unknownFor = 30 * time.Second
)

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

// Watch watches the objects. While the resource is not installed, there are none.
type Watch[T client.Object] struct {
	resource  Resource[T]
	client    client.WithWatch
	log       logr.Logger
	reflector *cache.Reflector
	changed   func(all []T, known bool)
	listed    done          // all objects were known for the first time
	absent    chan struct{} // closed when the resource was first found not to be installed

	mu      sync.Mutex
	objects map[string]T
	state   state
}

// state is what is known about a resource.
type state int

const (
	unread    state = iota // all objects are not known yet; also when the resource comes back
	installed              // they are known
	missing                // the resource is not installed
)

// done is a cache.DoneChecker.
type done struct {
	name string
	at   chan struct{}
}

// Name implements cache.DoneChecker.
func (d done) Name() string { return d.name }

// Done implements cache.DoneChecker.
func (d done) Done() <-chan struct{} { return d.at }

// New returns a watch that calls a function with all objects when they are known, when one is added or deleted or its
// spec changes, and when the resource goes or comes back. It tells the function whether all objects are known: they are
// not while the resource comes back, until the first list. Run must be called once.
func New[T client.Object](
	from client.WithWatch, resource Resource[T], log logr.Logger, changed func(all []T, known bool),
) *Watch[T] {
	w := &Watch[T]{
		resource: resource, client: from, log: log, changed: changed,
		listed: done{resource.Kind, make(chan struct{})}, absent: make(chan struct{}), objects: map[string]T{},
	}
	w.reflector = cache.NewReflectorWithOptions(w.lister(), resource.Object, store[T]{w}, cache.ReflectorOptions{
		Name:    resource.Kind,
		Backoff: &wait.Backoff{Duration: lookAgain, Factor: 2, Steps: 4, Cap: lastWait}, // to open the watch again
	})
	return w
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

// Run watches until the context ends. Errors are retried indefinitely, with one exception: if the resource is Required,
// it returns the error of a first list that is forbidden for half a minute.
func (w *Watch[T]) Run(ctx context.Context) error {
	var patience <-chan time.Time // with an API server that refuses
	for pause := lookAgain; ctx.Err() == nil; {
		err := w.once(ctx)
		if pause = min(2*pause, lastWait); err == nil || notInstalled(err) {
			pause = lookAgain
		}
		switch {
		case !w.resource.Required || !apierrors.IsForbidden(err) || cache.IsDone(w.listed):
			patience = nil
		case patience == nil:
			patience = time.After(unknownFor)
		}
		next := time.After(pause)
		select {
		case <-ctx.Done():
		case <-next:
		case <-patience:
			return err
		}
	}
	return nil
}

// once lists and watches the objects until that fails, and returns why it failed.
func (w *Watch[T]) once(ctx context.Context) error {
	if w.is(missing) {
		err := w.client.List(ctx, w.resource.List(), client.Limit(1))
		if ctx.Err() != nil || notInstalled(err) {
			return err
		}
		if err == nil {
			w.log.Info("The resource " + w.resource.Kind + " is installed now")
		} else {
			w.log.Info("Cannot tell whether the resource "+w.resource.Kind+" is installed", "reason", err.Error())
		}
		w.set(unread, map[string]T{})
	}
	err := w.reflector.ListAndWatchWithContext(ctx)
	switch {
	case ctx.Err() != nil || err == nil:
	case notInstalled(err):
		w.log.Info("The resource " + w.resource.Kind + " is not installed, " + w.resource.Without)
		w.set(missing, map[string]T{})
	default:
		cache.DefaultWatchErrorHandler(ctx, w.reflector, err)
	}
	return err
}

func notInstalled(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// set replaces all that is known.
func (w *Watch[T]) set(state state, objects map[string]T) {
	w.mu.Lock()
	w.state, w.objects = state, objects
	w.mu.Unlock()
	w.tell()
	switch {
	case state == installed && !cache.IsDone(w.listed):
		close(w.listed.at)
	case state == missing:
		select {
		case <-w.absent:
		default:
			close(w.absent)
		}
	}
}

func (w *Watch[T]) is(state state) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == state
}

// tell passes on all that is known. Only Run's goroutine changes it.
func (w *Watch[T]) tell() { w.changed(w.All(), !w.is(unread)) }

// Listed reports whether all objects have ever been known.
func (w *Watch[T]) Listed() bool { return cache.IsDone(w.listed) }

// Checker reports when all objects are known for the first time.
func (w *Watch[T]) Checker() cache.DoneChecker { return w.listed }

// Absent is closed once the resource was found not to be installed.
func (w *Watch[T]) Absent() <-chan struct{} { return w.absent }

// Get returns an object. It must not be modified.
func (w *Watch[T]) Get(name string) (T, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	object, ok := w.objects[name]
	return object, ok
}

// All returns all objects. They must not be modified.
func (w *Watch[T]) All() []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.objects))
}

// store takes the objects from the reflector.
type store[T client.Object] struct{ w *Watch[T] }

// Add implements cache.ReflectorStore.
func (s store[T]) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s store[T]) Update(object any) error {
	is := object.(T)
	s.w.mu.Lock()
	before, known := s.w.objects[is.GetName()]
	s.w.objects[is.GetName()] = is
	s.w.mu.Unlock()
	if !known || !SameSpec(before, is) {
		s.w.tell()
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (s store[T]) Delete(object any) error {
	s.w.mu.Lock()
	delete(s.w.objects, object.(T).GetName())
	s.w.mu.Unlock()
	s.w.tell()
	return nil
}

// Replace implements cache.ReflectorStore.
func (s store[T]) Replace(list []any, _ string) error {
	objects := make(map[string]T, len(list))
	for _, object := range list {
		objects[object.(T).GetName()] = object.(T)
	}
	s.w.set(installed, objects)
	return nil
}

// Resync implements cache.ReflectorStore.
func (store[T]) Resync() error { return nil }
