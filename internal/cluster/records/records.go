// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package records keeps a small record of every object of one kind, with one list and watch.
//
// Objects become records one by one, as they arrive. That holds for lists, too, streamed or in pages: at most a page of
// objects is in memory in addition to the records.
package records

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// Change is one change of a record R of an object O. Records are shared and never modified: a change makes a new one.
type Change[O, R any] struct {
	// Before is nil for an added object, After for a deleted one. If keys can be reused, as names can, and the watch was
	// interrupted, the two can be of different objects.
	Before, After *R
	// Object is the object as the watch or the list has just brought it, or the last state of a deleted one. It is nil if
	// the change came in another way. It must not be kept, because objects are large.
	Object *O
	// Gap is set if versions between Before and After may have been missed, because the watch was interrupted.
	Gap bool
	// Initial is set for objects that existed before the subscriber could see them appear, as part of the first list.
	Initial bool
}

// Kind decides what is kept of the objects of one kind. Its methods are called one at a time, under the lock of the
// cache, so it may keep an index that [Cache.Read] reads.
type Kind[K comparable, O, R any] interface {
	// Key returns the key of an object, and false if no record of it is kept.
	Key(object *O) (K, bool)
	// Keep is given a change with Before and Object, and sets After to the record to keep; if it leaves After nil,
	// Before stays. It reports whether to notify subscribers.
	Keep(change *Change[O, R]) (told bool)
	// Drop is called with each record that is dropped.
	Drop(key K, record *R)
}

// Cache holds the records. It is safe for concurrent use; Run must be called once.
type Cache[K comparable, O, R any] struct {
	name     string
	kind     Kind[K, O, R]
	clock    *timeline.Clock
	reflects func() *cache.Reflector // makes a reflector that begins with a list
	synced   chan struct{}
	syncOnce sync.Once

	telling     sync.Mutex // subscribers are notified of a change before the next is made
	subscribers []func(Change[O, R])

	mu        sync.RWMutex
	reflector *cache.Reflector
	interrupt context.CancelFunc // ends the run of the reflector; nil if it does not run
	records   map[K]*R
	listed    time.Time
	unlisted  map[K]struct{} // keys of records that the list under way has not shown yet
	asked     []func()       // called after a list that begins from now on
	awaiting  []func()       // called after the list under way
}

// New returns a cache of what the calls list and watch. The calls are a client's own; the client says whether lists can
// be streamed. The name is what logs and errors call the objects, in the plural.
func New[K comparable, O, R any](
	name string, calls *cache.ListWatch, client any, clock *timeline.Clock, kind Kind[K, O, R],
) *Cache[K, O, R] {
	c := &Cache[K, O, R]{name: name, kind: kind, clock: clock, synced: make(chan struct{}), records: map[K]*R{}}
	object, _ := any(new(O)).(runtime.Object)
	c.reflects = func() *cache.Reflector {
		return cache.NewReflectorWithOptions(listwatch.New(calls, client, c.Store()), object, c.Store(),
			cache.ReflectorOptions{Name: name, TypeDescription: name})
	}
	c.reflector = c.reflects()
	return c
}

// Run keeps the records up to date until the context ends. Errors of list and watch are logged and retried with backoff
// indefinitely, so it returns none.
func (c *Cache[K, O, R]) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		reflector, listing, interrupt := c.begin(ctx)
		reflector.RunWithContext(listing)
		interrupt()
	}
	return nil
}

// begin returns a reflector that begins with a list, and a context that [Cache.Relist] ends.
func (c *Cache[K, O, R]) begin(ctx context.Context) (*cache.Reflector, context.Context, context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listing, interrupt := context.WithCancel(ctx)
	c.reflector, c.interrupt = c.reflects(), interrupt
	return c.reflector, listing, interrupt
}

// Relist lists everything again, and calls the function when the list is complete. Records stay as they are meanwhile.
// The function must return quickly.
func (c *Cache[K, O, R]) Relist(done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, done)
	if c.interrupt != nil {
		c.interrupt()
	}
}

// HasSynced reports whether the first list is complete, and subscribers have been notified.
func (c *Cache[K, O, R]) HasSynced() bool { return cache.IsDone(c) }

// Name implements cache.DoneChecker.
func (c *Cache[K, O, R]) Name() string { return c.name }

// Done implements cache.DoneChecker: the channel is closed when the first list is complete.
func (c *Cache[K, O, R]) Done() <-chan struct{} { return c.synced }

// LastSyncResourceVersion returns the version that the watch has reached.
func (c *Cache[K, O, R]) LastSyncResourceVersion() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.reflector.LastSyncResourceVersion()
}

// Listed is when the newest list began, on the timeline. What happened between two lists was not seen as it happened.
func (c *Cache[K, O, R]) Listed() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.listed
}

// Subscribe calls the function for every existing record, and then after every change, once the cache shows it. Calls
// are made one at a time, in the order of the changes. The function must return quickly, and must neither subscribe nor
// make a change.
func (c *Cache[K, O, R]) Subscribe(changed func(Change[O, R])) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.subscribers = append(c.subscribers, changed)
	for _, record := range c.All() {
		changed(Change[O, R]{After: record, Initial: true})
	}
}

// Get returns the record of a key, if there is one.
func (c *Cache[K, O, R]) Get(key K) (*R, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	record, ok := c.records[key]
	return record, ok
}

// All returns all records, in no particular order.
func (c *Cache[K, O, R]) All() []*R {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.AppendSeq(make([]*R, 0, len(c.records)), maps.Values(c.records))
}

// Each calls the function for every record, and blocks all changes meanwhile.
func (c *Cache[K, O, R]) Each(do func(*R)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, record := range c.records {
		do(record)
	}
}

// Read calls the function so that it can read what the kind keeps, and blocks all changes meanwhile.
func (c *Cache[K, O, R]) Read(do func()) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	do()
}

// Write calls the function so that it can change how the kind keeps later objects.
func (c *Cache[K, O, R]) Write(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// Change calls the function to change the record of a key, as [Kind.Keep] does. There is no object, and Before is nil
// if there is no record.
func (c *Cache[K, O, R]) Change(key K, keep func(change *Change[O, R]) (told bool)) {
	c.change(func() (Change[O, R], bool) { return c.put(key, Change[O, R]{}, keep) })
}

// change makes a change under the lock and then, if anything changed, notifies the subscribers.
func (c *Cache[K, O, R]) change(apply func() (_ Change[O, R], told bool)) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	change, told := apply()
	c.mu.Unlock()
	if !told {
		return
	}
	for _, changed := range c.subscribers {
		changed(change)
	}
}

// put keeps the record that a function returns. The caller holds the lock.
func (c *Cache[K, O, R]) put(key K, change Change[O, R], keep func(*Change[O, R]) bool) (_ Change[O, R], told bool) {
	change.Before, change.Initial = c.records[key], !c.HasSynced()
	told = keep(&change)
	if change.After != nil {
		c.records[key] = change.After
	}
	return change, told
}

// remove drops a record, if there is one. The caller holds the lock.
func (c *Cache[K, O, R]) remove(key K, object *O) (_ Change[O, R], told bool) {
	before, ok := c.records[key]
	if !ok {
		return Change[O, R]{}, false
	}
	delete(c.records, key)
	delete(c.unlisted, key)
	c.kind.Drop(key, before)
	return Change[O, R]{Before: before, Object: object}, true
}

var _ cache.DoneChecker = (*Cache[string, struct{}, struct{}])(nil)

// Store returns the cache as its reflector sees it. Tests can add objects to it directly.
func (c *Cache[K, O, R]) Store() listwatch.Store { return store[K, O, R]{c} }

type store[K comparable, O, R any] struct{ *Cache[K, O, R] }

// Add is called for an object that appeared.
func (s store[K, O, R]) Add(object any) error { return s.Update(object) }

// Update is called for an object that appeared or changed.
func (s store[K, O, R]) Update(object any) error {
	is, err := s.as(object)
	if err != nil {
		return err
	}
	key, kept := s.kind.Key(is)
	if !kept {
		return nil
	}
	s.change(func() (Change[O, R], bool) {
		_, unlisted := s.unlisted[key]
		delete(s.unlisted, key)
		return s.put(key, Change[O, R]{Object: is, Gap: unlisted}, s.kind.Keep)
	})
	return nil
}

// Delete is called for an object that is gone.
func (s store[K, O, R]) Delete(object any) error {
	is, err := s.as(object)
	if err != nil {
		return err
	}
	if key, kept := s.kind.Key(is); kept {
		s.change(func() (Change[O, R], bool) { return s.remove(key, is) })
	}
	return nil
}

// BeginList implements listwatch.Store: versions of every object may be missing between its record and what the list
// shows.
func (s store[K, O, R]) BeginList() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = s.clock.Now()
	s.awaiting, s.asked = append(s.awaiting, s.asked...), nil
	s.unlisted = make(map[K]struct{}, len(s.records))
	for key := range s.records {
		s.unlisted[key] = struct{}{}
	}
}

// Replace is called when a list is complete. Its objects have come one by one.
func (s store[K, O, R]) Replace(objects []any, _ string) error {
	if len(objects) > 0 {
		return fmt.Errorf("the final list of %s should be empty, but has objects: %d", s.name, len(objects))
	}
	gone, awaiting := s.complete()
	for _, key := range gone {
		s.change(func() (Change[O, R], bool) { return s.remove(key, nil) })
	}
	s.syncOnce.Do(func() { close(s.synced) })
	for _, done := range awaiting {
		done()
	}
	return nil
}

// complete ends the list. It returns the keys that were not in it, and the functions that wait for it.
func (s store[K, O, R]) complete() (gone []K, awaiting []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, awaiting = slices.Collect(maps.Keys(s.unlisted)), s.awaiting
	s.unlisted, s.awaiting = nil, nil
	return gone, awaiting
}

// Resync has no meaning here.
func (s store[K, O, R]) Resync() error { return nil }

func (s store[K, O, R]) as(object any) (*O, error) {
	is, ok := object.(*O)
	if !ok {
		return nil, fmt.Errorf("the watch of %s delivered a %T", s.name, object)
	}
	return is, nil
}
