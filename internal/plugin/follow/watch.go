// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

// watch watches a feed until the context ends.
func (f *Follower) watch(ctx context.Context, feed Feed) {
	called := func(ctx context.Context, verb string, err error) {
		if ctx.Err() == nil && !isPassing(verb, err) {
			f.Do(ctx, func() { f.called(ctx, feed, verb, err) })
		}
	}
	streams := false // whether the latest watch begins with a list
	calls := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			streams = false
			listed, err := feed.Calls.calls.ListWithContextFunc(ctx, options)
			called(ctx, "list", err)
			return listed, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watched, err := feed.Calls.calls.WatchFuncWithContext(ctx, options)
			streams = err == nil && ptr.Deref(options.SendInitialEvents, false)
			if !streams {
				called(ctx, "watch", err)
			}
			return watched, err
		},
	}
	do := func(do func()) { f.Do(ctx, do) }
	to := &store{Feed: feed, known: map[string]seen{}, do: do, listed: func() {
		if streams {
			called(ctx, "watch", nil)
		}
		do(func() { f.listed(feed) })
	}}
	reflector := cache.NewReflectorWithOptions(listwatch.New(calls, feed.Client, to), feed.Object, to,
		cache.ReflectorOptions{Name: "follow", TypeDescription: feed.Kind})
	reflector.RunWithContext(ctx)
}

// isPassing reports whether an error does not count as a break because a list follows immediately. Versions expire, and
// the API server may refuse to stream a list, or not have the version yet.
func isPassing(verb string, err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		verb == "watch" && (apierrors.IsInvalid(err) || apierrors.IsTimeout(err))
}

// called records the result of a call.
func (f *Follower) called(ctx context.Context, feed Feed, verb string, err error) {
	switch {
	case err != nil:
		f.broken[feed.id()] = fmt.Errorf("%s %s: %w", verb, feed.Kind, err)
	case verb == "watch":
		delete(f.broken, feed.id())
	}
	f.Called(ctx, feed, verb, err)
}

// listed records that a feed has delivered all objects.
func (f *Follower) listed(feed Feed) {
	delete(f.unlisted, feed.id())
	if f.Listed != nil {
		f.Listed(feed)
	}
}

// store is where client-go's reflector puts objects. It keeps only their names and UIDs, to find out after a gap which
// are gone.
type store struct {
	Feed

	do     func(func())    // on the follower's goroutine
	listed func()          // called when a list is complete
	known  map[string]seen // by namespace and name
	list   uint32          // the number of the newest list
}

// seen is an object that exists, and the number of the last list that contained it.
type seen struct {
	uid  types.UID
	name string
	list uint32
}

var _ listwatch.Store = (*store)(nil)

// Add is called for an object that appeared.
func (s *store) Add(object any) error { return s.Update(object) }

// Update is called for an object that appeared or changed.
func (s *store) Update(object any) error {
	typed, err := s.object(object)
	if err != nil {
		return err
	}
	key := cache.MetaObjectToName(typed).String()
	before, there := s.known[key]
	s.known[key] = seen{typed.GetUID(), typed.GetName(), s.list}
	s.do(func() {
		if there && before.uid != typed.GetUID() {
			s.Gone(before.uid, before.name, nil)
		}
		s.Set(typed)
	})
	return nil
}

// Delete is called for an object that is gone.
func (s *store) Delete(object any) error {
	typed, err := s.object(object)
	if err != nil {
		return err
	}
	delete(s.known, cache.MetaObjectToName(typed).String())
	s.do(func() { s.Gone(typed.GetUID(), typed.GetName(), typed) })
	return nil
}

// BeginList implements listwatch.Store.
func (s *store) BeginList() { s.list++ }

// Replace is called when a list is complete. Its objects have already arrived one by one.
func (s *store) Replace(objects []any, _ string) error {
	if len(objects) > 0 {
		return fmt.Errorf("the final list of %s should be empty, but has objects: %d", s.Kind, len(objects))
	}
	for key, known := range s.known {
		if known.list != s.list {
			delete(s.known, key)
			s.do(func() { s.Gone(known.uid, known.name, nil) })
		}
	}
	s.listed()
	return nil
}

// Resync does nothing.
func (s *store) Resync() error { return nil }
