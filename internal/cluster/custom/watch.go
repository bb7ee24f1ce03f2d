// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package custom watches the objects of one of Taintkeeper's own resources, which may not be installed, and may go and
// come back while Taintkeeper runs.
package custom

import (
	"context"
	"errors"
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
	// lookAgain is how long to wait after the API server did not answer, refused, or did not know the resource.
	lookAgain = time.Second
	// unknownFor is how long an API server that has just started may not know the permissions yet.
	unknownFor = 30 * time.Second
	// closedFor is how long the watch may be closed, and silentFor how long it may bring nothing, before the objects are
	// unknown. Without changes, the API server sends the first bookmark after two minutes and then one a minute.
	closedFor = 2 * time.Second
	silentFor = 150 * time.Second
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
	listed    done        // all objects were known for the first time
	watchdog  *time.Timer // calls broken
	telling   sync.Mutex  // keeps what is told in order
	said      string      // why Run cannot list or watch

	mu      sync.Mutex
	objects map[string]T
	state   state
	opened  watch.Interface // the open watch, nil if it is closed
}

// state is what is known about a resource.
type state int

const (
	unread    state = iota // all objects are not known yet, or no longer, because the watch does not work
	installed              // they are known
	missing                // the resource is not installed
)

// errUnknown says that the objects must be listed before they are watched.
var errUnknown = errors.New("the watch did not work for a while")

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
// spec changes, and when the resource goes or comes back. It tells the function whether all objects are known. They are
// not while the resource comes back or the watch does not work, until the next complete list. Run must be called once.
func New[T client.Object](
	from client.WithWatch, resource Resource[T], log logr.Logger, changed func(all []T, known bool),
) *Watch[T] {
	w := &Watch[T]{
		resource: resource, client: from, log: log, changed: changed,
		listed: done{resource.Kind, make(chan struct{})}, objects: map[string]T{},
	}
	w.watchdog = time.AfterFunc(silentFor, w.broken)
	w.watchdog.Stop()
	w.reflector = cache.NewReflectorWithOptions(w.lister(), resource.Object, store[T]{w}, cache.ReflectorOptions{
		Name:    resource.Kind,
		Backoff: &wait.Backoff{Duration: lookAgain}, // to open the watch again
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
			options.ResourceVersion, options.ResourceVersionMatch = "", "" // a cache may be of before the watch broke
			list := w.resource.List()
			return list, w.client.List(ctx, list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: w.open,
	}, w.client)
}

// open opens the watch. If the objects are unknown when it is open, they must be listed first, because a watch does not
// say what has changed meanwhile.
func (w *Watch[T]) open(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w.closed()
	lists := options.SendInitialEvents != nil && *options.SendInitialEvents
	if lists {
		options.ResourceVersion = "" // the newest
	}
	opened, err := w.client.Watch(ctx, w.resource.List(), &client.ListOptions{Raw: &options})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	unknown := w.state == unread && !lists
	if !unknown {
		w.opened = opened
	}
	w.mu.Unlock()
	if unknown {
		opened.Stop()
		return nil, errUnknown
	}
	if !lists { // otherwise it works when it has brought the list
		w.works()
	}
	return opened, nil
}

// closed notes that the watch is closed.
func (w *Watch[T]) closed() {
	w.mu.Lock()
	was := w.opened
	w.opened = nil
	w.mu.Unlock()
	if was != nil {
		w.works()
	}
}

// works notes that the watch works now. It is broken when it stays closed or brings nothing for too long.
func (w *Watch[T]) works() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opened == nil {
		w.watchdog.Reset(closedFor)
	} else {
		w.watchdog.Reset(silentFor)
	}
}

// broken notes that the watch does not work.
func (w *Watch[T]) broken() {
	w.mu.Lock()
	was, opened := w.state, w.opened
	if was == installed {
		w.state = unread
	}
	w.mu.Unlock()
	if opened != nil {
		opened.Stop()
	}
	if was == installed {
		w.log.Info("The watch of the resource " + w.resource.Kind + " does not work; trying to list it again")
		w.tell()
	}
}

// Run watches until the context ends. Errors are retried indefinitely, with one exception: if the resource is Required,
// it returns the error of a first list that is forbidden for half a minute.
func (w *Watch[T]) Run(ctx context.Context) error {
	defer w.watchdog.Stop()
	var patience <-chan time.Time // with an API server that refuses
	for ctx.Err() == nil {
		err := w.once(ctx)
		if errors.Is(err, errUnknown) {
			continue
		}
		w.say(err)
		switch {
		case !w.resource.Required || !apierrors.IsForbidden(err) || cache.IsDone(w.listed):
			patience = nil
		case patience == nil:
			patience = time.After(unknownFor)
		}
		next := time.After(lookAgain)
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
		}
		w.set(unread, map[string]T{})
	}
	err := w.reflector.ListAndWatchWithContext(ctx)
	w.closed()
	if ctx.Err() == nil && notInstalled(err) {
		w.log.Info("The resource " + w.resource.Kind + " is not installed, " + w.resource.Without)
		w.set(missing, map[string]T{})
	}
	return err
}

// say logs why the objects cannot be listed and watched, when that changes.
func (w *Watch[T]) say(err error) {
	now := ""
	if err != nil && !notInstalled(err) {
		now = err.Error()
	}
	if now != "" && now != w.said {
		w.log.Info("Cannot list and watch the resource "+w.resource.Kind+", will retry", "reason", now)
	}
	w.said = now
}

func notInstalled(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// set replaces all that is known.
func (w *Watch[T]) set(state state, objects map[string]T) {
	w.mu.Lock()
	w.state, w.objects = state, objects
	w.mu.Unlock()
	w.tell()
	if state == installed && !cache.IsDone(w.listed) {
		close(w.listed.at)
	}
}

func (w *Watch[T]) is(state state) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == state
}

// tell passes on all that is known.
func (w *Watch[T]) tell() {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.changed(w.All(), w.Known())
}

// Known reports whether all objects are known; they are if the resource is not installed.
func (w *Watch[T]) Known() bool { return !w.is(unread) }

// Listed reports whether all objects have ever been known.
func (w *Watch[T]) Listed() bool { return cache.IsDone(w.listed) }

// Checker reports when all objects are known for the first time.
func (w *Watch[T]) Checker() cache.DoneChecker { return w.listed }

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

// UpdateResourceVersion implements cache.ResourceVersionUpdater. The reflector calls it for each event, and for
// bookmarks, which a quiet watch brings.
func (s store[T]) UpdateResourceVersion(string) { s.w.works() }

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
	s.w.works()
	s.w.set(installed, objects)
	return nil
}

// Resync implements cache.ReflectorStore.
func (store[T]) Resync() error { return nil }
