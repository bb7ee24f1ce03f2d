// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import "sync"

// Notes are what a test was told and has not looked at yet. The zero value is empty. Safe for concurrent use.
type Notes[T any] struct {
	mu  sync.Mutex
	all []T
}

// Write writes down what is told.
func (n *Notes[T]) Write(told T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, told)
}

// Take returns what was written down since it was called last.
func (n *Notes[T]) Take() []T {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.all
	n.all = nil
	return taken
}
