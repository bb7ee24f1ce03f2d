// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// paces knows who waits for the paces of policies and for budgets, and who leaves. It is safe for concurrent use.
type paces struct {
	now     func() time.Time
	changed chan struct{} // holds one element if somebody stands in line, or a place is free

	mu      sync.Mutex
	paced   map[string]*paced    // by policy
	budgets map[string][]*budget // by namespace
	line    *policy.Line
}

// paced is a policy's pace in all its scopes.
type paced struct {
	pace    policy.Pace
	since   time.Time // from when on departures are known
	windows map[string]*policy.Window
}

func newPaces(now func() time.Time) *paces {
	return &paces{
		now: now, changed: make(chan struct{}, 1),
		paced: map[string]*paced{}, budgets: map[string][]*budget{}, line: policy.NewLine(),
	}
}

// follow takes in the policies. The windows of a pace that has not changed go on.
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
			next[p.Name] = &paced{pace: *pace, since: s.now(), windows: map[string]*policy.Window{}}
		}
	}
	s.paced = next
}

// windows returns the windows in which policies count pods that leave a node. The caller holds the lock.
func (s *paces) windows(all []*policy.Policy, node *nodecache.Node) (windows []policy.Places) {
	for _, p := range all {
		of := s.paced[p.Name]
		if of == nil {
			continue
		}
		scope := ""
		switch of.pace.Scope {
		case v1alpha1.ScopeNode:
			scope = node.Name
		case v1alpha1.ScopeZone:
			scope = node.Labels[corev1.LabelTopologyZone]
		}
		if of.windows[scope] == nil {
			of.windows[scope] = policy.NewWindow(of.pace, of.since)
		}
		windows = append(windows, of.windows[scope])
	}
	return windows
}

// places returns the places that a pod needs. The caller holds the lock.
func (s *paces) places(needs needs, node *nodecache.Node) []policy.Places {
	places := s.windows(needs.paces, node)
	if needs.budget != nil {
		places = append(places, needs.budget)
	}
	return places
}

// set says which pods of a node need places, whether they have them or not.
func (s *paces) set(name string, node *nodecache.Node, pods map[types.UID]needs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := make([]policy.Waiting, 0, len(pods))
	for uid, needs := range pods {
		waiting = append(waiting, policy.Waiting{UID: uid, Due: needs.due, Needs: s.places(needs, node)})
	}
	if s.line.Set(name, waiting, s.now()) {
		s.wake()
	}
}

// has reports whether a pod has all places that it needs.
func (s *paces) has(needs needs, node *nodecache.Node, pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return policy.Has(pod, s.places(needs, node), s.now())
}

// lacks returns what is said of the budget of a pod that waits for its places.
func (s *paces) lacks(needs needs) policy.Budgets {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case needs.budget == nil:
		return policy.Budgets{}
	case len(needs.paces) > 0 && !needs.budget.Lacks(s.now()): // the pace is what has no room
		return policy.Budgets{Name: needs.budget.name}
	}
	return policy.Budgets{Objects: policy.Budget, Name: needs.budget.name}
}

func (s *paces) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// begin takes places of a pod, if it has those that it needs.
func (s *paces) begin(needs, takes needs, node *nodecache.Node, pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !policy.Has(pod, s.places(needs, node), s.now()) {
		return false
	}
	s.line.Begin(node.Name, pod)
	for _, p := range s.places(takes, node) {
		p.Begin(pod, s.now())
	}
	return true
}

// left counts a pod that started to leave in the paces of policies, and wherever its eviction has begun.
func (s *paces) left(all []*policy.Policy, node *nodecache.Node, pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.windows(all, node) {
		w.Left(pod, s.now())
	}
	s.mayHaveLeft(pod)
	s.wake()
}

// gone counts a pod that is gone wherever its eviction has begun.
func (s *paces) gone(pod types.UID) { s.left(nil, nil, pod) }

// mayHaveLeft counts a pod wherever its eviction has begun. The caller holds the lock.
func (s *paces) mayHaveLeft(pod types.UID) {
	s.each(func(w policy.Places) {
		if w.Begun(pod) {
			w.Left(pod, s.now())
		}
	})
}

// ended says that an eviction that has begun on a node has ended. The pod counts, unless it is known to stay.
func (s *paces) ended(node string, pod types.UID, stays bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stays {
		s.each(func(w policy.Places) { w.Stays(pod) })
		s.line.Stays(node, pod, s.now())
	}
	s.mayHaveLeft(pod)
	s.wake()
}

// each calls a function with all places. The caller holds the lock.
func (s *paces) each(do func(policy.Places)) {
	for _, of := range s.paced {
		for _, w := range of.windows {
			do(w)
		}
	}
	for _, of := range s.budgets {
		for _, b := range of {
			do(b)
		}
	}
}

// call gives the free places to those that wait, and returns the nodes about which to decide again and when to call
// again; zero means not before somebody waits.
func (s *paces) call() (nodes []string, again time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	called, again := s.line.Call(s.now())
	if s.line.Empty() {
		s.forgetIdle()
	}
	return slices.Sorted(maps.Keys(called)), again
}

// forgetIdle forgets the windows of which nothing is known, such as those of nodes that are gone. The caller holds the
// lock.
func (s *paces) forgetIdle() {
	for _, of := range s.paced {
		maps.DeleteFunc(of.windows, func(_ string, w *policy.Window) bool { return w.Idle(s.now()) })
	}
}
