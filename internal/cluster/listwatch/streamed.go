// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

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
