// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

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
