// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// world is a cluster with an API: client-go's fake clientset, in virtual time, with what it lacks:
// resource versions, UID preconditions, grace periods, watches that are interrupted, and a book of
// the deletes that were accepted. It lives in one synctest bubble.
type world struct {
	client *fake.Clientset
	hasty  bool // nobody gets time to see that a pod is gone before the next of its name comes

	mu         sync.Mutex
	cluster    *cluster
	news       map[string][]watch.Event // by resource, all there ever were
	watchers   map[string][]*watcher
	blindUntil time.Duration
	deletes    outcome
	calls      map[string]int
	events     []*corev1.Event
}

// outcome says of every pod, by UID, when deletes of it were accepted.
type outcome map[string][]time.Duration

func (o outcome) note(uid string, at time.Duration) { o[uid] = append(o[uid], at) }

func newWorld(h *history) *world {
	w := &world{
		client:   &fake.Clientset{},
		cluster:  newCluster(h),
		news:     map[string][]watch.Event{},
		watchers: map[string][]*watcher{},
		deletes:  outcome{},
		calls:    map[string]int{},
	}
	w.cluster.nodeChanged = func(before, after *corev1.Node) {
		if after == nil {
			gone := *before
			gone.ResourceVersion = strconv.Itoa(w.cluster.version)
			w.publish("nodes", watch.Deleted, &gone)
			return
		}
		w.publish("nodes", addedOrModified(before == nil), after)
	}
	w.cluster.podChanged = func(before, after *corev1.Pod) {
		if after == nil {
			gone := *before
			gone.ResourceVersion = strconv.Itoa(w.cluster.version)
			w.publish("pods", watch.Deleted, &gone)
			return
		}
		w.publish("pods", addedOrModified(before == nil), after)
	}
	w.client.AddReactor("*", "*", w.react)
	w.client.AddWatchReactor("*", w.watch)
	for name := range w.cluster.removals {
		w.removeLater(w.cluster.removals[name])
	}
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

func (w *world) publish(resource string, kind watch.EventType, object runtime.Object) {
	w.news[resource] = append(w.news[resource], watch.Event{Type: kind, Object: object})
	for _, watcher := range w.watchers[resource] {
		watcher.send(kind, object)
	}
}

// do does what a step says, and lets what can happen then happen. A pod that is replaced is gone
// for everybody before the next of its name comes, unless the replacement is to be unseen.
func (w *world) do(s step) {
	if replacing, ok := s.Do.(create); ok {
		w.locked(func() { w.cluster.vacate(replacing.Pod.Name) })
		w.pause()
	}
	w.locked(func() {
		if _, ok := s.Do.(createUnseen); ok {
			w.interrupt(s.At + blindFor)
		}
		w.cluster.apply(s)
		w.scheduleRemovals()
	})
	synctest.Wait()
}

func (w *world) pause() {
	if !w.hasty {
		synctest.Wait()
	}
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// interrupt ends all watches of pods, as when their resource version is too old to go on from, and
// makes the next list wait.
func (w *world) interrupt(until time.Duration) {
	w.blindUntil = until
	expired := apierrors.NewResourceExpired("too old resource version").ErrStatus
	for _, watcher := range w.watchers["pods"] {
		watcher.send(watch.Error, &expired)
		watcher.Stop()
	}
	w.watchers["pods"] = nil
}

func (w *world) scheduleRemovals() {
	if next := w.cluster.nextRemoval(); next != never {
		w.removeLater(next)
	}
}

func (w *world) removeLater(at time.Duration) {
	time.AfterFunc(at-now(), func() {
		w.locked(func() {
			w.cluster.removeEnded(now())
			w.scheduleRemovals()
		})
	})
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
	watcher := newWatcher(len(w.news[resource]) + changesOfAPod*len(w.cluster.pods))
	for _, event := range w.news[resource] {
		if versionOf(event.Object) > number(options.ResourceVersion) {
			watcher.send(event.Type, event.Object)
		}
	}
	w.watchers[resource] = append(w.watchers[resource], watcher)
	return true, watcher, nil
}

// watcher is the answer to a WATCH. Unlike client-go's fake one it holds the news of a crowd.
type watcher struct {
	mu      sync.Mutex
	events  chan watch.Event
	stopped bool
}

// changesOfAPod is how many changes of one pod a watcher holds, so long as nobody reads them.
const changesOfAPod = 4

func newWatcher(expected int) *watcher {
	const atLeast = 100
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
