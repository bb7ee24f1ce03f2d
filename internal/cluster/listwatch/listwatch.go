// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listwatch brings the objects of a list to a store one by one, as they arrive.
//
// client-go's reflector collects a list before it hands it over, so that all objects are in memory besides what the
// store makes of them. Here no more than a page of them is, whether the API server streams lists or not.
package listwatch

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// pageSize is how many objects are in memory at once while they are listed: client-go's own size of a page.
const pageSize = 500

// Store takes objects one by one.
type Store interface {
	cache.ReflectorStore
	// BeginList is called when a list begins: from then on updates are of objects that are listed, too. When the list is
	// complete Replace is called, without objects. A list that breaks off is followed by another.
	BeginList()
}

// lister lists and watches. Every object of a list goes to the store when it arrives, and the reflector is told of an
// empty list when that is complete.
type lister struct {
	*streamed

	store Store
}

// New returns what a reflector with the given store lists and watches with. The calls are a client's own; the
// client says whether lists can be streamed.
func New(calls *cache.ListWatch, client any, to Store) cache.ListerWatcher {
	l := lister{streamed: newStreamed(calls), store: to}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  l.list,
		WatchFuncWithContext: l.watch,
	}, client)
}

// list lists page by page. The newest state is asked for, whatever version the reflector proposes: what is asked for at
// version 0 many API servers answer from their cache, and then all at once. All pages are of the version of the first.
// If that expires the list fails, and the reflector begins it again.
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

// watch watches. If the options ask for a list first it returns when that is complete, with a watch that goes on with
// the event that ended the list.
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

// listed keeps the object of an event, and reports whether the list goes on.
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

// continuedWatch is a watch of which some events were read already. Only one goroutine may read it.
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
// does, so that no goroutine is needed to carry over every later one.
func (c continuedWatch) ResultChan() <-chan watch.Event {
	if len(c.first) > 0 {
		return c.first
	}
	return c.Interface.ResultChan()
}
