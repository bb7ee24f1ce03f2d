// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// slowServer is the API server of a world with admission that takes its time. Unlike a reactor of the fake clientset it
// sees, as a real one does, when a client gives a call up.
type slowServer struct {
	client *bubble.Slow

	// takes says how long a call takes ("get", "patch" or "delete", and the name of the node or pod), and how it then
	// fails, if it does.
	takes func(verb, name string) (time.Duration, error)

	mu         sync.Mutex
	open, most int // calls
}

// slow makes the world's API server slow.
func (w *world) slow(takes func(verb, name string) (time.Duration, error)) *slowServer {
	s := &slowServer{takes: takes}
	s.client = &bubble.Slow{Clientset: w.Client, Before: s.wait}
	return s
}

// behind makes an Evictor use it.
func (s *slowServer) behind(c *Config) { c.Client, c.EventClient = s.client, s.client.Clientset }

// wait lets the time of a call pass. Patches of nodes are as fast as ever.
func (s *slowServer) wait(ctx context.Context, r bubble.Request) error {
	if r.Verb == "patch" && r.Resource == "nodes" {
		return nil
	}
	s.count(1)
	defer s.count(-1)
	takes, err := s.takes(r.Verb, r.Name)
	if cancelled := bubble.Takes(ctx, takes); cancelled != nil {
		return cancelled
	}
	return err
}

func (s *slowServer) count(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += calls
	s.most = max(s.most, s.open)
}

// mostOpen returns the greatest number of calls that were open at once.
func (s *slowServer) mostOpen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}
