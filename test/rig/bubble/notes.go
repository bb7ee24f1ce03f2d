// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import "sync"

// Notes are notifications that a test has not looked at yet. The zero value is empty. They are safe for concurrent use.
type Notes[T any] struct {
	mu  sync.Mutex
	all []T
}

// Write adds a notification.
func (n *Notes[T]) Write(told T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, told)
}

// Take returns what was added since its last call.
func (n *Notes[T]) Take() []T {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.all
	n.all = nil
	return taken
}
