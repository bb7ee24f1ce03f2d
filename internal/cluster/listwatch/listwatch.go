// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listwatch passes the objects of a list to a store one by one, as they arrive.
//
// client-go's reflector collects a list before it hands it over, so that all objects are in memory in addition to the
// store's records. Here, at most a page of objects is in memory, whether or not the API server streams lists.
package listwatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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

const (
	// askedWithin bounds how long the API server may take to return the newest version.
	askedWithin = 10 * time.Second
	// askedAgain is how long to wait before asking again.
	askedAgain = time.Second
)

// restores detects that etcd was restored from a snapshot and its revisions went back. The API server accepts a watch
// from a future version, and sends nothing until the revisions have passed that version. A reflector would not notice,
// and would never see what the restore changed (kubernetes/kubernetes#107457). When a watch is reopened, restores
// therefore requests the newest version while the watch continues.
type restores struct {
	calls *cache.ListWatch
	end   context.CancelFunc // cancels the check under way, if any
	found *atomic.Bool       // what it has found
}

// begin checks a watch from a version, and stops the watch if the API server has not reached that version.
func (r *restores) begin(ctx context.Context, w watch.Interface, version string) {
	r.forget()
	ctx, r.end = context.WithCancel(ctx)
	found := &atomic.Bool{}
	r.found = found
	go func() {
		for {
			newest, err := r.newest(ctx)
			switch {
			case err == nil && isBehind(newest, version):
				found.Store(true)
				w.Stop()
				return
			case err == nil || refused(err):
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(askedAgain):
			}
		}
	}()
}

// forget ends the check, and reports whether it has found that etcd was restored.
func (r *restores) forget() bool {
	if r.end == nil {
		return false
	}
	r.end()
	r.end = nil
	return r.found.Load()
}

// refused reports whether the API server will not answer, however often it is asked. The next list returns that error.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// isBehind reports whether a version is older than one that was seen before. Versions that are not numbers say nothing.
func isBehind(version, seen string) bool {
	order, err := resourceversion.CompareResourceVersion(version, seen)
	return err == nil && order < 0
}

// newest returns the version that a quorum of etcd has reached.
func (r *restores) newest(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	list, err := r.calls.ListWithContextFunc(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	return about.GetResourceVersion(), nil
}

const (
	// silentFor is how long an incomplete streamed list may bring nothing. Some proxies, and the API servers of some
	// clouds, drop the bookmark that ends it (kubernetes/kubernetes#140890). client-go's reflector waits for the bookmark
	// until the watch ends, and then starts again.
	silentFor = 10 * time.Second
	// streamedWithin is how long a streamed list may take in total, because on a busy cluster changes keep coming. A
	// million pods take less than a minute.
	streamedWithin = 5 * time.Minute
	// refusedTimes is how many times in a row the API server may answer that it is too busy for a streamed list. The
	// reflector would retry indefinitely.
	refusedTimes = 3
)

// streamed makes a reflector list page by page when streaming a list does not work. It is for one reflector.
type streamed struct {
	calls    *cache.ListWatch
	refused  int  // times in a row
	fresh    bool // a list has just returned the version to watch from
	restores restores
}

func newStreamed(calls *cache.ListWatch) *streamed {
	return &streamed{calls: calls, restores: restores{calls: calls}}
}

// Bounded returns the ListerWatcher for a reflector whose store takes whole lists. The calls are a client's own; the
// client says whether lists can be streamed.
func Bounded(calls *cache.ListWatch, client any) cache.ListerWatcher {
	s := newStreamed(calls)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  s.list,
		WatchFuncWithContext: s.watch,
	}, client)
}

func (s *streamed) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	s.fresh = true
	return s.calls.ListWithContextFunc(ctx, options)
}

// watch watches. If the options ask for a list first, it returns when the list is complete.
func (s *streamed) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := s.begin(ctx, options)
	if err != nil || !wantsList(options) {
		return w, err
	}
	var events []watch.Event
	last, err := complete(ctx, w, func(event watch.Event) bool {
		events = append(events, event)
		return goesOn(event)
	})
	if err != nil {
		return nil, err
	}
	return continued(w, append(events, last)...), nil
}

func wantsList(options metav1.ListOptions) bool {
	return options.SendInitialEvents != nil && *options.SendInitialEvents
}

// begin starts a watch. It turns an error that a reflector would retry indefinitely into one after which the reflector
// lists.
func (s *streamed) begin(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	goesOn := !s.fresh && !wantsList(options)
	s.fresh = false
	if s.restores.forget() && goesOn {
		return nil, apierrors.NewResourceExpired(
			"etcd was restored: version " + options.ResourceVersion + " is newer than its newest")
	}
	w, err := s.calls.WatchFuncWithContext(ctx, options)
	if err == nil && goesOn {
		s.restores.begin(ctx, w, options.ResourceVersion)
	}
	if !wantsList(options) || !apierrors.IsTooManyRequests(err) && !apierrors.IsInternalError(err) {
		s.refused = 0
		return w, err
	}
	if s.refused++; s.refused < refusedTimes {
		return w, err
	}
	s.refused = 0
	return nil, fmt.Errorf("list page by page, because streaming is refused: %v", err) //nolint:errorlint // see above
}

// complete reads a streamed list as long as take reports that it continues, and returns the event that ended it.
func complete(ctx context.Context, w watch.Interface, take func(watch.Event) bool) (watch.Event, error) {
	silence, late := time.NewTimer(silentFor), time.NewTimer(streamedWithin)
	defer silence.Stop()
	defer late.Stop()
	err := errors.New("list page by page, because the streamed list does not end")
	for {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-silence.C:
		case <-late.C:
		case event, ok := <-w.ResultChan():
			if ok && take(event) {
				silence.Reset(silentFor)
				continue
			}
			if ok {
				return event, nil
			}
			err = errors.New("list page by page, because the streamed list was interrupted")
		}
		w.Stop()
		return watch.Event{}, err
	}
}

// goesOn reports whether a streamed list continues after an event. The reflector handles anything but objects and
// intermediate bookmarks.
func goesOn(event watch.Event) bool {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		return true
	case watch.Bookmark:
		about, err := meta.Accessor(event.Object)
		return err == nil && about.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true"
	default:
		return false
	}
}
