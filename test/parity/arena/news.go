// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// News is what the API server tells those who watch. It must not be used concurrently; the watches
// that it gives may.
type News struct {
	told     map[string][]watch.Event // by resource, all there ever were
	watchers map[string][]*watcher
}

// NewNews makes the news of an API server that has told nothing yet.
func NewNews() *News {
	return &News{told: map[string][]watch.Event{}, watchers: map[string][]*watcher{}}
}

// Tell tells of a change of an object: before is nil for what came, after for what went. That goes with
// the version that the cluster has then.
func Tell[T any, O Object[T]](n *News, resource string, before, after O, version int) {
	switch {
	case before == nil:
		n.publish(resource, watch.Added, after)
	case after != nil:
		n.publish(resource, watch.Modified, after)
	default:
		gone := O(new(*before))
		gone.SetResourceVersion(strconv.Itoa(version))
		n.publish(resource, watch.Deleted, gone)
	}
}

func (n *News) publish(resource string, kind watch.EventType, object runtime.Object) {
	n.told[resource] = append(n.told[resource], watch.Event{Type: kind, Object: object})
	for _, watcher := range n.watchers[resource] {
		watcher.send(kind, object)
	}
}

// Watch answers a WATCH: first what is newer than the given resource version, then what comes. Whoever
// does not read holds everybody up when there is more to come than there is room for.
func (n *News) Watch(action clienttesting.Action, room int) watch.Interface {
	resource := action.GetResource().Resource
	var options metav1.ListOptions
	if action, ok := action.(clienttesting.WatchActionImpl); ok {
		options = action.ListOptions
	}
	answer := &watcher{events: make(chan watch.Event, len(n.told[resource])+room)}
	for _, event := range n.told[resource] {
		if versionOf(event.Object) > number(options.ResourceVersion) {
			answer.send(event.Type, event.Object)
		}
	}
	n.watchers[resource] = append(n.watchers[resource], answer)
	return answer
}

// Interrupt ends all watches of a resource, as when their resource version is too old to go on from.
func (n *News) Interrupt(resource string) {
	expired := apierrors.NewResourceExpired("too old resource version").ErrStatus
	for _, watcher := range n.watchers[resource] {
		watcher.send(watch.Error, &expired)
		watcher.Stop()
	}
	delete(n.watchers, resource)
}

// watcher is the answer to a WATCH. Unlike client-go's fake one it has as much room as is asked for.
type watcher struct {
	mu      sync.Mutex
	events  chan watch.Event
	stopped bool
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
