// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

// store is the cache as client-go's reflector sees it.
type store struct{ *Cache }

var (
	_ cache.DoneChecker = (*Cache)(nil)
	_ listwatch.Store   = store{}
)

// Add is called for a pod that appeared.
func (s store) Add(object any) error { return s.Update(object) }

// Update is called for a pod that appeared or changed.
func (s store) Update(object any) error {
	pod, err := asPod(object)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	after := record(pod, s.clock.See())
	s.change(func() (Change, bool) {
		change, news := s.put(after)
		delete(s.unlisted, after.UID)
		change.Object = pod
		return change, news
	})
	return nil
}

// Delete is called for a pod that is gone.
func (s store) Delete(object any) error {
	pod, err := asPod(object)
	if err != nil {
		return err
	}
	s.change(func() (Change, bool) {
		change, news := s.remove(pod.UID)
		change.Object = pod
		return change, news
	})
	return nil
}

// BeginList implements listwatch.Store.
func (s store) BeginList() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisted = make(map[types.UID]struct{}, len(s.pods))
	for uid := range s.pods {
		s.unlisted[uid] = struct{}{}
	}
}

// Replace is called when a list is complete. Its pods came one by one.
func (s store) Replace(objects []any, _ string) error {
	if len(objects) > 0 {
		return fmt.Errorf("%d pods are in the list of those that are left", len(objects))
	}
	for _, uid := range s.gone() {
		s.change(func() (Change, bool) { return s.remove(uid) })
	}
	s.syncOnce.Do(func() { close(s.synced) })
	return nil
}

// gone ends the list, and returns what was not in it.
func (s store) gone() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := slices.Collect(maps.Keys(s.unlisted))
	s.unlisted = nil
	return gone
}

// Resync has no meaning here.
func (s store) Resync() error { return nil }

func asPod(object any) (*corev1.Pod, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("the watch of pods brought a %T", object)
	}
	return pod, nil
}
