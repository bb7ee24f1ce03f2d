// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// paces keeps the lines of the policies that have a pace. It is safe for concurrent use.
type paces struct {
	now     func() time.Time
	changed chan struct{} // holds one element if somebody stands in a line, or a place is free

	mu    sync.Mutex
	paced map[string]*paced // by policy
}

// paced is a policy's pace in all its scopes.
type paced struct {
	pace  policy.Pace
	since time.Time // from when on departures are known
	lines map[string]*policy.Window
}

func newPaces(now func() time.Time) *paces {
	return &paces{now: now, changed: make(chan struct{}, 1), paced: map[string]*paced{}}
}

// follow takes in the policies. The lines of a pace that has not changed go on.
func (s *paces) follow(all []followed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string]*paced{}
	for _, p := range all {
		pace := p.Pace()
		if pace == nil {
			continue
		}
		next[p.Name] = s.paced[p.Name]
		if known := next[p.Name]; known == nil || known.pace != *pace {
			next[p.Name] = &paced{pace: *pace, since: s.now(), lines: map[string]*policy.Window{}}
		}
	}
	s.paced = next
}

// any reports whether a policy has a pace.
func (s *paces) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.paced) > 0
}

// line returns the line of a policy in which pods of a node stand. The caller holds the lock.
func (s *paces) line(p *policy.Policy, node *nodecache.Node) *policy.Window {
	of := s.paced[p.Name]
	if of == nil {
		return nil
	}
	scope := ""
	switch of.pace.Scope {
	case v1alpha1.ScopeNode:
		scope = node.Name
	case v1alpha1.ScopeZone:
		scope = node.Labels[corev1.LabelTopologyZone]
	}
	line := of.lines[scope]
	if line == nil {
		line = policy.NewWindow(of.pace, of.since)
		of.lines[scope] = line
	}
	return line
}

// room lets a pod stand in the line of a policy, and returns when it has a place.
func (s *paces) room(p *policy.Policy, node *nodecache.Node, pod policy.Waiting) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.line(p, node)
	if line == nil || line.Has(pod.UID) {
		return time.Time{}
	}
	line.Stand(pod)
	s.wake()
	if line.Call(s.now()); line.Has(pod.UID) {
		return time.Time{}
	}
	return policy.Later
}

// waits returns when a pod has a place in the line of a policy, in which it stands where it stands.
func (s *paces) waits(p *policy.Policy, node *nodecache.Node, pod types.UID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := s.line(p, node); line != nil && line.Waits(pod) {
		return policy.Later
	}
	return time.Time{}
}

func (s *paces) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// begin takes places for a pod in the lines of policies, unless it waits for one.
func (s *paces) begin(all []*policy.Policy, node *nodecache.Node, pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []*policy.Window
	for _, p := range all {
		if line := s.line(p, node); line != nil {
			lines = append(lines, line)
		}
	}
	if slices.ContainsFunc(lines, func(line *policy.Window) bool { return line.Waits(pod) }) {
		return false
	}
	for _, line := range lines {
		line.Begin(pod, node.Name)
	}
	return true
}

// left counts a pod that started to leave in the lines of policies, and takes it out of all others.
func (s *paces) left(all []*policy.Policy, node *nodecache.Node, pod types.UID) {
	s.back(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range all {
		if line := s.line(p, node); line != nil {
			line.Left(pod, s.now())
		}
	}
}

// back takes a pod out of all lines.
func (s *paces) back(pod types.UID) {
	s.each(func(line *policy.Window) { line.Back(pod) })
}

// backFrom takes the pods of a node out of all lines: those that wait, or all if the node has no taints any more.
func (s *paces) backFrom(node string, all bool) {
	s.each(func(line *policy.Window) { line.BackFrom(node, all) })
}

func (s *paces) each(do func(*policy.Window)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.paced {
		for _, line := range of.lines {
			do(line)
		}
	}
	s.wake()
}

// call gives the free places to those that wait, and returns the nodes of these and when to call again; zero means not
// before somebody waits.
func (s *paces) call() (nodes []string, again time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.paced {
		for _, line := range of.lines {
			called, next := line.Call(s.now())
			for _, pod := range called {
				nodes = append(nodes, pod.Node)
			}
			again = timeline.Next(again, next)
		}
	}
	return nodes, again
}
