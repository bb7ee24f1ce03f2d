// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// world is a cluster with an API: client-go's fake clientset, in virtual time, with what it lacks:
// resource versions, UIDs as preconditions, a status that is written apart, calls that take time, and
// a book of how nodes looked. It lives in one synctest bubble.
type world struct {
	client *fake.Clientset

	mu       sync.Mutex
	cluster  *cluster
	news     map[string][]watch.Event // by resource, all there ever were
	watchers map[string][]*watcher
	looks    outcome
	passes   []time.Duration // when upstream began to look at all nodes
	writes   map[string]int  // of each node
	events   []*corev1.Event
}

func newWorld(h *history) *world {
	w := &world{
		client:   &fake.Clientset{},
		cluster:  newCluster(),
		news:     map[string][]watch.Event{},
		watchers: map[string][]*watcher{},
		looks:    outcome{},
		writes:   map[string]int{},
	}
	w.cluster.nodeChanged = func(before, after *corev1.Node) {
		if after == nil {
			w.looks.note(before.Name, nil, now())
			gone := *before
			gone.ResourceVersion = strconv.Itoa(w.cluster.version)
			w.publish("nodes", watch.Deleted, &gone)
			return
		}
		w.looks.note(after.Name, after, now())
		w.publish("nodes", addedOrModified(before == nil), after)
	}
	w.cluster.leaseChanged = func(before, after *coordinationv1.Lease) {
		if after == nil {
			gone := *before
			gone.ResourceVersion = strconv.Itoa(w.cluster.version)
			w.publish("leases", watch.Deleted, &gone)
			return
		}
		w.publish("leases", addedOrModified(before == nil), after)
	}
	w.cluster.begin(h)
	w.client.AddReactor("*", "*", w.react)
	w.client.AddWatchReactor("*", w.watch)
	return w
}

func addedOrModified(added bool) watch.EventType {
	if added {
		return watch.Added
	}
	return watch.Modified
}

// now is the virtual instant, from the beginning of the bubble.
func now() time.Duration { return time.Since(epoch) }

// sleep lets virtual time pass.
func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) publish(resource string, kind watch.EventType, object runtime.Object) {
	w.news[resource] = append(w.news[resource], watch.Event{Type: kind, Object: object})
	for _, watcher := range w.watchers[resource] {
		watcher.send(kind, object)
	}
}

// watch answers a WATCH: first what is newer than the given resource version, then what comes.
func (w *world) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resource := action.GetResource().Resource
	var options metav1.ListOptions
	if action, ok := action.(clienttesting.WatchActionImpl); ok {
		options = action.ListOptions
	}
	watcher := newWatcher(len(w.news[resource]))
	for _, event := range w.news[resource] {
		if versionOf(event.Object) > number(options.ResourceVersion) {
			watcher.send(event.Type, event.Object)
		}
	}
	w.watchers[resource] = append(w.watchers[resource], watcher)
	return true, watcher, nil
}

// watcher is the answer to a WATCH. Unlike client-go's fake one it holds many news.
type watcher struct {
	mu      sync.Mutex
	events  chan watch.Event
	stopped bool
}

func newWatcher(expected int) *watcher {
	const atLeast = 200
	return &watcher{events: make(chan watch.Event, expected+atLeast)}
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.stopped = true
		close(w.events)
	}
}

func (w *watcher) send(kind watch.EventType, object runtime.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.events <- watch.Event{Type: kind, Object: object}
	}
}

func versionOf(object runtime.Object) int {
	meta, ok := object.(metav1.Object)
	if !ok {
		return 0
	}
	return number(meta.GetResourceVersion())
}

func number(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		return 0
	}
	return n
}

// sorted returns the values of a map in the order of its keys.
func sorted[K cmp.Ordered, V any](m map[K]V) []V {
	values := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}
