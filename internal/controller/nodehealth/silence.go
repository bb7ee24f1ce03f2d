// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

const (
	// countedMost is the most that the time from one echo to the next can count. A longer one is a gap.
	countedMost = 5 * time.Second
	// settling is what a kubelet needs to be heard again after a gap: two of its periods.
	settling = 20 * time.Second
)

// silence tells which nodes are silent. Its clock runs only while this process hears its own renewals: an echo of one
// that was begun at b shows that whatever kubelets had stored before b has come, too. So time in which nobody could
// have been heard, or in which this process stood still, is no node's silence. See "Node health on one page" in
// docs/design.md. Safe for concurrent use.
type silence struct {
	grace readiness.Grace

	mu      sync.RWMutex
	clock   time.Duration
	began   time.Time     // this process
	echoed  time.Time     // when the renewal of the latest echo was begun; zero: there was none
	settled time.Duration // until then on the clock, nodes have settling in addition to their grace
	nodes   map[string]sign
	leases  map[string]renewal
}

// sign is what a node's object told, and when on the clock its latest sign of life came: that, or a renewal of its
// lease.
type sign struct {
	at     time.Duration
	uid    types.UID
	posted bool // there was a Ready condition
	beat   metav1.Time
}

// renewal is a lease as it was last renewed, and when on the clock that was news.
type renewal struct {
	at   time.Duration
	last time.Time // by the kubelet's clock
}

func newSilence(grace readiness.Grace, now time.Time) *silence {
	return &silence{grace: grace, began: now, nodes: map[string]sign{}, leases: map[string]renewal{}}
}

// echo notes that a renewal which was begun at an instant has come back. It reports whether that is news.
func (s *silence) echo(begun time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !begun.After(s.echoed) {
		return false
	}
	if !s.echoed.IsZero() {
		gap := begun.Sub(s.echoed)
		s.clock += min(gap, countedMost)
		if gap > countedMost {
			s.settled = s.clock + settling
		}
	}
	s.echoed = begun
	return true
}

// lead notes that this process is the leader from now on: what cost the one before its place may have cut off kubelets,
// too.
func (s *silence) lead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = s.clock + settling
}

// freshAt reports whether a verdict may be carried out at an instant: the latest echo is not too old for it.
func (s *silence) freshAt(now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.echoed.IsZero() && now.Sub(s.echoed) < countedMost
}

// sinceEcho returns how long ago the renewal of the latest echo was begun, or this process if there was none.
func (s *silence) sinceEcho(now time.Time) time.Duration {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.echoed.IsZero() {
		return now.Sub(s.began)
	}
	return now.Sub(s.echoed)
}

// saw notes what a node's object says. The first that is seen of a node is a sign of life, unless it never posted its
// status: then its creation is.
func (s *silence) saw(node *corev1.Node, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := sign{at: s.stamp(now), uid: node.UID}
	if ready := readiness.Condition(node, corev1.NodeReady); ready != nil {
		next.posted, next.beat = true, ready.LastHeartbeatTime
	}
	known, seen := s.nodes[node.Name]
	seen = seen && known.uid == node.UID // a gap of the watch hides that a node was made anew
	switch {
	case seen && next.posted == known.posted && next.beat.Equal(&known.beat):
		return
	case !seen:
		next.at -= now.Sub(readiness.FirstSign(node, now))
	}
	if lease, renewed := s.leases[node.Name]; renewed {
		next.at = max(next.at, lease.at)
	}
	s.nodes[node.Name] = next
}

// renewed notes that a lease was seen, with the time of its renewal by the kubelet's clock. Any other than before is a
// sign of life: that clock may be set back.
func (s *silence) renewed(name string, last, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, seen := s.leases[name]; seen && last.Equal(known.last) {
		return
	}
	at := s.stamp(now)
	s.leases[name] = renewal{at: at, last: last}
	if known, seen := s.nodes[name]; seen {
		known.at = max(known.at, at)
		s.nodes[name] = known
	}
}

// stamp returns when on the clock something is news that came at an instant: after what the latest echo counted.
func (s *silence) stamp(now time.Time) time.Duration {
	if s.echoed.IsZero() {
		return s.clock
	}
	return s.clock + min(now.Sub(s.echoed), countedMost)
}

func (s *silence) forgetNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, name)
}

// forgetLease notes that a lease was deleted. When its node was last alive stays known.
func (s *silence) forgetLease(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, name)
}

// listed notes which leases there are. With one that is gone went renewals that nobody saw, so its kubelet has time to
// make it anew, once.
func (s *silence) listed(there map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.leases {
		if there[name] {
			continue
		}
		delete(s.leases, name)
		if known, seen := s.nodes[name]; seen {
			known.at = max(known.at, s.clock-max(s.grace.Of(known.posted)-settling, 0))
			s.nodes[name] = known
		}
	}
}

// forgive makes now a sign of life of every node that ever gave one: what was silent before proves nothing. One that
// was never heard of has its start-up grace period once, however often zones fall and recover.
func (s *silence) forgive(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range s.nodes {
		if _, renewed := s.leases[name]; known.posted || renewed {
			known.at = s.stamp(now)
			s.nodes[name] = known
		}
	}
}

// knows reports whether a node was seen. One that was made anew under its name must not be judged by the signs of the
// one before.
func (s *silence) knows(node *corev1.Node) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	known, seen := s.nodes[node.Name]
	return seen && known.uid == node.UID
}

// of returns the standing of a node.
func (s *silence) of(name string) readiness.Standing {
	s.mu.RLock()
	defer s.mu.RUnlock()
	known, seen := s.nodes[name]
	if !seen {
		return readiness.Heard
	}
	return s.standing(known)
}

// all returns the standing of every node that is not heard.
func (s *silence) all() map[string]readiness.Standing {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := map[string]readiness.Standing{}
	for name, known := range s.nodes {
		if now := s.standing(known); now != readiness.Heard {
			all[name] = now
		}
	}
	return all
}

func (s *silence) standing(known sign) readiness.Standing {
	over := s.clock - known.at - s.grace.Of(known.posted)
	switch {
	case over <= 0:
		return readiness.Heard
	case over <= settling && s.clock < s.settled:
		return readiness.Doubtful
	}
	return readiness.Silent
}
