// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"maps"
	"slices"
	"sync"
)

// registry knows the processes that this package has started itself and that have not been ended
// on purpose. The zero value is empty. Safe for concurrent use.
type registry struct {
	mu     sync.Mutex
	all    map[Component]*process
	closed bool
}

// add starts a process and keeps it under a name, in the place of one that had the name and has
// ended. After end it refuses, so that nothing is started that nobody would end.
func (r *registry) add(name Component, start func() (*process, error)) (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errStopped
	}
	p, err := start()
	if err != nil {
		return nil, err
	}
	if r.all == nil {
		r.all = map[Component]*process{}
	}
	r.all[name] = p
	return p, nil
}

// refusal returns why nothing can be added any more, or nil.
func (r *registry) refusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errStopped
	}
	return nil
}

// get returns the process of a name, or nil.
func (r *registry) get(name Component) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[name]
}

// forget drops a process, unless another has its name by now.
func (r *registry) forget(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[p.component] == p {
		delete(r.all, p.component)
	}
}

func (r *registry) names() []Component {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.all))
}

// end ends all processes, at the same time, and lets none be added any more.
func (r *registry) end() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	failures := make([]error, len(r.all))
	var group sync.WaitGroup
	for i, p := range slices.Collect(maps.Values(r.all)) {
		group.Go(func() { failures[i] = p.stop() })
	}
	group.Wait()
	return failures
}
