// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
)

// meeting is where the scenarios of an act wait for one another, so that something is done once for all of them. It is
// safe for concurrent use.
type meeting struct {
	once sync.Once
	err  error
	all  chan struct{} // closed when nobody is missing

	mu      sync.Mutex
	missing int
}

func newMeeting(participants int) *meeting {
	return &meeting{all: make(chan struct{}), missing: participants}
}

// leave is for those who come, and for those who will not.
func (m *meeting) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing--
	if m.missing == 0 {
		close(m.all)
	}
}

// together does something when nobody is missing any more, once, and returns what came of it.
func (m *meeting) together(ctx context.Context, do func(context.Context) error) error {
	select {
	case <-m.all:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.once.Do(func() { m.err = do(ctx) })
	return m.err
}
