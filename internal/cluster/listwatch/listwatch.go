// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listwatch passes the objects of a list to a store one by one, as they arrive.
//
// client-go's reflector collects a list before it hands it over, so that all objects are in memory in addition to the
// store's records. Here, at most a page of objects is in memory, whether or not the API server streams lists.
package listwatch

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// pageSize is how many objects are in memory at once during a list. It is client-go's own page size.
const pageSize = 500

// Store takes objects one by one.
type Store interface {
	cache.ReflectorStore
	// BeginList is called when a list begins. From then on, updates can also be of listed objects. When the list is
	// complete, Replace is called without objects. A list that breaks off is followed by another.
	BeginList()
}

// lister lists and watches. Every object of a list goes to the store when it arrives, and the reflector gets an empty
// list when the list is complete.
type lister struct {
	*streamed

	store Store
}

// New returns the ListerWatcher for a reflector with the given store. The calls are a client's own; the client says
// whether lists can be streamed.
func New(calls *cache.ListWatch, client any, to Store) cache.ListerWatcher {
	l := lister{streamed: newStreamed(calls), store: to}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  l.list,
		WatchFuncWithContext: l.watch,
	}, client)
}

// list lists page by page. It requests the newest state, whatever version the reflector proposes, because many API
// servers answer a request for version 0 from their cache, and then without pages. All pages are of the version of
// the first. If that expires, the list fails, and the reflector restarts it.
func (l lister) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	l.store.BeginList()
	l.fresh = true
	version := ""
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := l.calls.ListWithContextFunc(ctx, options)
		if err != nil {
			return nil, err
		}
		if err := meta.EachListItem(page, func(object runtime.Object) error { return l.store.Update(object) }); err != nil {
			return nil, err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return nil, err
		}
		if options.Continue == "" {
			version = about.GetResourceVersion()
		}
		if options.Continue = about.GetContinue(); options.Continue == "" {
			about.SetResourceVersion(version)
			return page, meta.SetList(page, nil)
		}
	}
}

// watch watches. If the options ask for a list first, it returns when the list is complete, with a watch that
// continues with the event that ended the list.
func (l lister) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := l.begin(ctx, options)
	if err != nil || !wantsList(options) {
		return w, err
	}
	l.store.BeginList()
	last, err := complete(ctx, w, l.listed)
	if err != nil {
		return nil, err
	}
	return continued(w, last), nil
}

// listed stores the object of an event, and reports whether the list continues.
func (l lister) listed(event watch.Event) bool {
	switch event.Type {
	case watch.Added, watch.Modified:
		return l.store.Update(event.Object) == nil
	case watch.Deleted:
		return l.store.Delete(event.Object) == nil
	default:
		return goesOn(event)
	}
}

// continuedWatch is a watch of which some events have already been read. Only one goroutine may read it.
type continuedWatch struct {
	watch.Interface

	first chan watch.Event
}

func continued(w watch.Interface, first ...watch.Event) continuedWatch {
	c := continuedWatch{Interface: w, first: make(chan watch.Event, len(first))}
	for _, event := range first {
		c.first <- event
	}
	return c
}

// ResultChan implements watch.Interface. It must be called again after each of the first events, as the reflector
// does, so that no goroutine is needed to copy every later event.
func (c continuedWatch) ResultChan() <-chan watch.Event {
	if len(c.first) > 0 {
		return c.first
	}
	return c.Interface.ResultChan()
}
