// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Watches are all watches of a resource, and everything that a real API server and the network can do to them. Events
// may come late, but in order. A watch may end, and the next one continues from its version or starts with a list. They
// are safe for concurrent use.
type Watches struct {
	mu     sync.Mutex
	told   []event // the newest
	open   []*watcher
	broken bool
	lag    time.Duration
	before func() // nil: nothing
}

type event struct {
	watch.Event

	resource  string
	namespace string
	version   int64
}

// How many changes are kept for watches that continue from a version, and how many fit while nothing reads them.
const (
	eventsKept = 2000
	eventsRead = 4000
)

// Before calls a function before each change is sent to the watches. It may disturb the watches.
func (w *Watches) Before(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = change
}

// Lag delays every change by a duration.
func (w *Watches) Lag(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lag = d
}

// Hold keeps back later changes to the open watches.
func (w *Watches) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range w.open {
		to.hold()
	}
}

// HoldFirst keeps back later changes to the oldest watch only.
func (w *Watches) HoldFirst() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[0].hold()
}

// Release sends what was kept back, and ends keeping changes back.
func (w *Watches) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range w.open {
		to.release()
	}
}

// IsHeld reports whether changes to a watch are kept back.
func (w *Watches) IsHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.open, (*watcher).isHeld)
}

// Expire ends the watches, and drops what was kept back. The next watches begin with a list.
func (w *Watches) Expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire()
}

// Break does the same, and nothing is listed or watched until Repair is called.
func (w *Watches) Break() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = true
	w.expire()
}

// Repair ends what Break began.
func (w *Watches) Repair() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = false
}

// IsBroken reports whether nothing is listed or watched.
func (w *Watches) IsBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// expire is called under the lock.
func (w *Watches) expire() {
	for _, to := range w.open {
		to.expire()
	}
	w.open = nil
}

// forget forgets past changes, so that no watch continues from there.
func (w *Watches) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = nil
}

// Tell sends a change of an object to its watches. The resource is named only if several resources share the watches.
func (w *Watches) Tell(resource string, kind watch.EventType, object runtime.Object) {
	w.mu.Lock()
	before := w.before
	w.mu.Unlock()
	if before != nil {
		before()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	about := object.(metav1.Object)
	e := event{
		watch.Event{Type: kind, Object: object.DeepCopyObject()}, resource,
		about.GetNamespace(), VersionOf(about.GetResourceVersion()),
	}
	if w.told = append(w.told, e); len(w.told) > eventsKept {
		w.told = w.told[1:] // slices.Delete would move all of them
	}
	w.open = slices.DeleteFunc(w.open, (*watcher).isStopped)
	for _, to := range w.open {
		switch {
		case !to.wants(e):
		case w.lag == 0:
			to.send(e.Event)
		default:
			to.sendAfter(w.lag, e.Event)
		}
	}
}

// Begin starts a watch of changes after a version.
func (w *Watches) Begin(resource, namespace string, from int64) (watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken || len(w.told) == eventsKept && w.told[0].version > from+1 {
		return nil, &apierrors.StatusError{ErrStatus: *Expired()}
	}
	to := &watcher{resource: resource, namespace: namespace, events: make(chan watch.Event, len(w.told)+eventsRead)}
	for _, e := range w.told {
		if e.version > from && to.wants(e) {
			to.send(e.Event)
		}
	}
	w.open = append(w.open, to)
	return to, nil
}

// watcher is one watch. If too many events are not read, the test hangs.
type watcher struct {
	resource  string
	namespace string

	mu      sync.Mutex
	events  chan watch.Event
	late    []watch.Event
	held    bool
	stopped bool
}

func (w *watcher) wants(e event) bool {
	return e.resource == w.resource && (w.namespace == "" || w.namespace == e.namespace)
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

func (w *watcher) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

func (w *watcher) isHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

func (w *watcher) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

func (w *watcher) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	for _, e := range w.late {
		w.brings(e)
	}
	w.late = nil
}

// expire ends the watch, which cannot continue from its version.
func (w *watcher) expire() {
	w.mu.Lock()
	w.late = nil
	w.brings(watch.Event{Type: watch.Error, Object: Expired()})
	w.mu.Unlock()
	w.Stop()
}

func (w *watcher) send(e watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		w.late = append(w.late, e)
		return
	}
	w.brings(e)
}

// sendAfter keeps the order.
func (w *watcher) sendAfter(d time.Duration, e watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = append(w.late, e)
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.late) > 0 {
			w.brings(w.late[0])
			w.late = w.late[1:]
		}
	})
}

// brings is called under the lock.
func (w *watcher) brings(e watch.Event) {
	if !w.stopped {
		w.events <- watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}
	}
}
