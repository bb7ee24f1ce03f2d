// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// pageSize is how many pods are in memory at once while they are listed: client-go's own size of a page.
const pageSize = 500

// lister lists and watches the pods that have a node. client-go's reflector collects a list before it
// hands it over, so that all pods, or all records and a map of them, are in memory besides the cache. Here every pod
// of a list goes to the store when it arrives, and the reflector is told of an empty list when that is complete.
type lister struct {
	client kubernetes.Interface
	store  store
}

// boundPods lists and watches the pods that have a node. The list is streamed where the server can.
func boundPods(client kubernetes.Interface, to store) cache.ListerWatcher {
	l := lister{client: client, store: to}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  l.list,
		WatchFuncWithContext: l.watch,
	}, client)
}

var bound = fields.OneTermNotEqualSelector("spec.nodeName", "").String()

// list lists page by page. The newest state is asked for, whatever version the reflector proposes: what is asked for at
// version 0 many API servers answer from their cache, and then all at once. All pages are of the version of the first. If
// that expires the list fails, and the reflector begins it again.
func (l lister) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	l.store.beginList()
	complete := &corev1.PodList{}
	for options := (metav1.ListOptions{FieldSelector: bound, Limit: pageSize}); ; {
		page, err := l.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if err := l.store.Update(&page.Items[i]); err != nil {
				return nil, err
			}
		}
		if options.Continue == "" {
			complete.ResourceVersion = page.ResourceVersion
		}
		if page.Continue == "" {
			return complete, nil
		}
		options.Continue = page.Continue
	}
}

// watch watches, after a streamed list if the options ask for one.
func (l lister) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = bound
	w, err := l.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
	if err != nil || options.SendInitialEvents == nil || !*options.SendInitialEvents {
		return w, err
	}
	l.store.beginList()
	s := &streamedList{Interface: w, store: l.store, results: make(chan watch.Event), stopped: make(chan struct{})}
	go s.run()
	return s, nil
}

// streamedList is a watch that begins with a list. It stores the pods of the list itself.
type streamedList struct {
	watch.Interface

	store   store
	results chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

// ResultChan implements watch.Interface.
func (s *streamedList) ResultChan() <-chan watch.Event { return s.results }

// Stop implements watch.Interface.
func (s *streamedList) Stop() {
	s.once.Do(func() { close(s.stopped) })
	s.Interface.Stop()
}

func (s *streamedList) run() {
	defer close(s.results)
	listing := true
	for event := range s.Interface.ResultChan() {
		if listing && event.Type == watch.Bookmark {
			listing = !endsList(event.Object)
		} else if listing {
			event = s.listed(event)
		}
		select {
		case s.results <- event:
		case <-s.stopped:
			return
		}
	}
}

// listed stores the pod of an event, and returns what the reflector is told instead: that there is progress, in a
// bookmark that has nothing else of the pod, which could have the annotation that ends a list. What is no pod, an error
// first of all, it is told as it is.
func (s *streamedList) listed(event watch.Event) watch.Event {
	take := s.store.Update
	switch event.Type {
	case watch.Added, watch.Modified:
	case watch.Deleted:
		take = s.store.Delete
	default:
		return event
	}
	if take(event.Object) != nil {
		return event
	}
	return watch.Event{Type: watch.Bookmark, Object: progress(event.Object)}
}

// progress is what a bookmark of a pod's version has.
func progress(object runtime.Object) runtime.Object {
	bookmark := &corev1.Pod{}
	if pod, ok := object.(*corev1.Pod); ok {
		bookmark.ResourceVersion = pod.ResourceVersion
	}
	return bookmark
}

func endsList(bookmark runtime.Object) bool {
	pod, ok := bookmark.(*corev1.Pod)
	return ok && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}
