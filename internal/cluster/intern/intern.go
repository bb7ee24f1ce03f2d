// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package intern keeps a single copy of values that many records share.
package intern

// Pool keeps one copy of every value in use, by key: a cluster of a hundred thousand pods has a handful of different
// toleration lists. It is not safe for concurrent use.
type Pool[K comparable, T any] map[K]*Shared[T]

// Shared is a value of a pool.
type Shared[T any] struct {
	Value T
	Uses  int
}

// Share returns the one copy of a value, and counts one more use of it.
func (p Pool[K, T]) Share(key K, value T) T {
	one, ok := p[key]
	if !ok {
		one = &Shared[T]{Value: value}
		p[key] = one
	}
	one.Uses++
	return one.Value
}

// Release ends one use of a value that Share returned.
func (p Pool[K, T]) Release(key K) {
	one := p[key]
	one.Uses--
	if one.Uses == 0 {
		delete(p, key)
	}
}
