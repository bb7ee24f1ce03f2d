// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

// store is the cache as client-go's reflector sees it.
type store struct{ *Cache }

var (
	_ cache.DoneChecker = (*Cache)(nil)
	_ listwatch.Store   = store{}
)

// Add is called for a node that appeared.
func (s store) Add(object any) error { return s.Update(object) }

// Update is called for a node that appeared or changed.
func (s store) Update(object any) error {
	node, err := asNode(object)
	if err != nil {
		return err
	}
	s.change(func() (Change, bool) { return s.put(node) })
	return nil
}

// Delete is called for a node that is gone.
func (s store) Delete(object any) error {
	node, err := asNode(object)
	if err != nil {
		return err
	}
	s.change(func() (Change, bool) { return s.remove(node.Name) })
	return nil
}

// BeginList implements listwatch.Store: versions of every node may be missing between its record and what the list
// shows.
func (s store) BeginList() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = s.clock.Now()
	s.unlisted = make(map[string]struct{}, len(s.nodes))
	for name := range s.nodes {
		s.unlisted[name] = struct{}{}
	}
}

// Replace is called when a list is complete. Its nodes came one by one.
func (s store) Replace(objects []any, _ string) error {
	if len(objects) > 0 {
		return fmt.Errorf("%d nodes are in the list of those that are left", len(objects))
	}
	for _, name := range s.gone() {
		s.change(func() (Change, bool) { return s.remove(name) })
	}
	s.syncOnce.Do(func() { close(s.synced) })
	return nil
}

// gone ends the list, and returns what was not in it.
func (s store) gone() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := slices.Collect(maps.Keys(s.unlisted))
	s.unlisted = nil
	return gone
}

// Resync has no meaning here.
func (s store) Resync() error { return nil }

func asNode(object any) (*corev1.Node, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("the watch of nodes brought a %T", object)
	}
	return node, nil
}
