// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"context"
	"time"

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

// Gather is how long changes of pods may lie before they are read, for a client that reads them together; see
// apicall.Gathered. It is small beside the time that a change takes through the API server, and much longer than the
// time between two changes in a cluster so large that it matters.
const Gather = 10 * time.Millisecond

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

// watch watches. If the options ask for a list first it returns when that is over, with a watch that
// goes on with the event that ended the list.
func (l lister) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = bound
	w, err := l.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
	if err != nil || options.SendInitialEvents == nil || !*options.SendInitialEvents {
		return w, err
	}
	l.store.beginList()
	for {
		select {
		case <-ctx.Done():
			w.Stop()
			return nil, ctx.Err()
		case event, ok := <-w.ResultChan():
			if !ok {
				return w, nil
			}
			if !l.listed(event) {
				return continued(event, w), nil
			}
		}
	}
}

// listed keeps the pod of an event, and reports whether the list goes on: after anything but pods and bookmarks on
// the way it is for the reflector to say.
func (l lister) listed(event watch.Event) bool {
	switch event.Type {
	case watch.Added, watch.Modified:
		return l.store.Update(event.Object) == nil
	case watch.Deleted:
		return l.store.Delete(event.Object) == nil
	case watch.Bookmark:
		pod, ok := event.Object.(*corev1.Pod)
		return ok && pod.Annotations[metav1.InitialEventsAnnotationKey] != "true"
	default:
		return false
	}
}

// continuedWatch is a watch of which one event was read already. Only one goroutine may read it.
type continuedWatch struct {
	watch.Interface

	first chan watch.Event
}

func continued(first watch.Event, w watch.Interface) continuedWatch {
	c := continuedWatch{Interface: w, first: make(chan watch.Event, 1)}
	c.first <- first
	return c
}

// ResultChan implements watch.Interface. It has to be asked again after the first event, as the reflector does, so that
// no goroutine has to carry over every later one.
func (c continuedWatch) ResultChan() <-chan watch.Event {
	if len(c.first) > 0 {
		return c.first
	}
	return c.Interface.ResultChan()
}
