// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"maps"
	"slices"
)

// kept knows which labels the records of pods have. Records have few: only those whose keys a policy names. They have
// the labels of a new key only after all pods have been listed again.
type kept struct {
	wanted []string            // sorted
	known  map[string]struct{} // keys that all records have
	lists  int                 // how many lists were requested
}

// keysOf returns the keys by which policies select pods, in order.
func keysOf(all []followed) []string {
	keys := map[string]struct{}{}
	for _, p := range all {
		for _, key := range p.PodLabels() {
			keys[key] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// want sets the wanted keys. It reports whether they have changed, and whether a list must bring the labels of some.
func (k *kept) want(keys []string) (changed, list bool) {
	changed = !slices.Equal(k.wanted, keys)
	k.wanted = keys
	maps.DeleteFunc(k.known, func(key string, _ struct{}) bool { return !slices.Contains(keys, key) })
	list = changed && len(k.known) < len(keys)
	if list {
		k.lists++
	}
	return changed, list
}

// listed notes that the records have the labels that were wanted when a list was requested. It reports whether that is
// news.
func (k *kept) listed(number int) bool {
	if number != k.lists { // another list is under way
		return false
	}
	k.known = make(map[string]struct{}, len(k.wanted))
	for _, key := range k.wanted {
		k.known[key] = struct{}{}
	}
	return true
}

// mark returns the policies, and notes in each whether all labels by which it selects are known.
func (k *kept) mark(all []followed) []followed {
	marked := slices.Clone(all)
	for i := range marked {
		marked[i].labeled = k.have(marked[i].PodLabels())
	}
	return marked
}

// have reports whether the records have the labels of some keys.
func (k *kept) have(keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		_, known := k.known[key]
		return !known
	})
}
