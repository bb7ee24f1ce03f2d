// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// probes remembers when each node last gave a sign of life, by the clock of this process: when its lease
// was renewed or its Ready condition's heartbeat changed. Safe for concurrent use.
//
// The clock of silence stands still while the leases cannot be watched. An API server that was away is
// no reason to call nodes silent that could not be heard. When it was away for long, kubelets are given
// time to find it: it may be seen before it takes their renewals.
type probes struct {
	grace Grace

	mu         sync.RWMutex
	heartbeats map[string]heartbeat
	renewals   map[string]renewal

	blind      time.Duration // in all, up to blindSince if that is set
	blindSince time.Time
	unread     time.Time // when a live read of a lease last failed, or had to wait
}

// longBlindness is how long the leases have been unseen when kubelets may have lost the API server: as long
// as it takes one to renew. They then have as much as findAgain: a call that hangs, and the next renewal. To
// give all of them their whole grace period would forgive the silent for ever when outages come one after another.
const (
	longBlindness = 10 * time.Second
	findAgain     = 20 * time.Second
)

// sign is an instant, with how long this process had been blind until then.
type sign struct {
	at    time.Time
	blind time.Duration
}

type heartbeat struct {
	sign

	uid    types.UID
	posted bool // there was a Ready condition
	last   metav1.Time

	excused bool // it has had more time since its last sign of life, because leases could not be read
}

type renewal struct {
	sign

	last time.Time // by the kubelet's clock
}

func newProbes(grace Grace) *probes {
	return &probes{grace: grace, heartbeats: map[string]heartbeat{}, renewals: map[string]renewal{}}
}

// of returns when a node last gave a sign of life, moved by the time for which none could be seen.
func (p *probes) of(name string, now time.Time) time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.last(name, p.blindUntil(now))
}

// knows reports whether a node was seen. The store of the watch has one shortly before that: one that was made anew
// under its name must not be judged by the signs of the one before.
func (p *probes) knows(node *corev1.Node) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	known, seen := p.heartbeats[node.Name]
	return seen && known.uid == node.UID
}

// last is of for those who hold the lock.
func (p *probes) last(name string, blind time.Duration) time.Time {
	probe := p.heartbeats[name].seenFrom(blind)
	if renewed := p.renewals[name].seenFrom(blind); renewed.After(probe) {
		return renewed
	}
	return probe
}

func (s sign) seenFrom(blind time.Duration) time.Time { return s.at.Add(blind - s.blind) }

// blindUntil returns for how long in all this process was blind. The caller holds the lock.
func (p *probes) blindUntil(now time.Time) time.Duration {
	if p.blindSince.IsZero() {
		return p.blind
	}
	return p.blind + now.Sub(p.blindSince)
}

// heartbeat notes what the object of a node says. The first that this process sees is a sign of life,
// unless the node never posted its status: then its creation is.
func (p *probes) heartbeat(node *corev1.Node, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, seen := p.heartbeats[node.Name]
	seen = seen && known.uid == node.UID // a gap of the watch hides that a node was made anew
	next := heartbeat{sign: sign{at: now, blind: p.blindUntil(now)}, uid: node.UID}
	if ready := condition(node, corev1.NodeReady); ready != nil {
		next.posted, next.last = true, ready.LastHeartbeatTime
	}
	switch {
	case seen && next.posted == known.posted && next.last.Equal(&known.last):
		return
	case !seen && !next.posted && node.CreationTimestamp.Time.Before(now):
		next.at = node.CreationTimestamp.Time
	}
	p.heartbeats[node.Name] = next
}

// renewed notes that a lease was seen, and reports whether that is a sign of life.
func (p *probes) renewed(name string, last, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, seen := p.renewals[name]; seen && last.Equal(known.last) { // its clock may be set back
		return false
	}
	p.renewals[name] = renewal{sign: sign{at: now, blind: p.blindUntil(now)}, last: last}
	if known := p.heartbeats[name]; known.excused {
		known.excused = false
		p.heartbeats[name] = known
	}
	return true
}

func (p *probes) forgetNode(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.heartbeats, name)
}

func (p *probes) forgetLease(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(name)
}

// drop is forgetLease for those who hold the lock.
func (p *probes) drop(name string) {
	renewed, beats := p.renewals[name], p.heartbeats[name]
	delete(p.renewals, name)
	if _, known := p.heartbeats[name]; known && renewed.seenFrom(0).After(beats.seenFrom(0)) { // it was alive then, with or without a lease
		beats.sign = renewed.sign
		p.heartbeats[name] = beats
	}
}

// missLease notes that a lease is gone though the watch has not said so. With it went the renewals that the watch had
// not brought either, so its kubelet has time to make it anew, once.
func (p *probes) missLease(name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.renewals[name]; known {
		p.drop(name)
		p.leaveNode(name, findAgain, now)
	}
}

// cannotRead notes that a lease cannot be read, canRead that a node's can. What kept us from reading leases may have
// kept kubelets from renewing them, too: a node that has given no sign of life since has time to do so, once until then.
func (p *probes) cannotRead(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread = now
}

func (p *probes) canRead(name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, seen := p.heartbeats[name]
	_, renewed := p.renewals[name]
	heard := known.posted || renewed // nothing kept it from renewing what it never had
	if !seen || !heard || known.excused || !p.unread.After(p.last(name, p.blindUntil(now))) {
		return
	}
	known.excused = true
	p.heartbeats[name] = known
	p.leaveNode(name, findAgain, now)
}

// isExcused reports whether a node has more time, and has given no sign of life since.
func (p *probes) isExcused(name string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.heartbeats[name].excused
}

// leases returns the names of the nodes whose lease is known.
func (p *probes) leases() []string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	names := make([]string, 0, len(p.renewals))
	for name := range p.renewals {
		names = append(names, name)
	}
	return names
}

// restart makes now a sign of life of every node that ever gave one: what was silent before proves nothing.
// One that was never heard of has its start-up grace period once, however often zones fall and recover.
func (p *probes) restart(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	anew := sign{at: now, blind: p.blindUntil(now)}
	for name, known := range p.heartbeats {
		if _, renewed := p.renewals[name]; known.posted || renewed {
			known.sign, known.excused = anew, false
			p.heartbeats[name] = known
		}
	}
}

// leave makes no grace period end before so much more time has passed.
func (p *probes) leave(least time.Duration, now time.Time) {
	for name := range p.heartbeats {
		p.leaveNode(name, least, now)
	}
}

func (p *probes) leaveNode(name string, least time.Duration, now time.Time) {
	known, seen := p.heartbeats[name]
	if !seen {
		return
	}
	grace := p.grace.Startup
	if known.posted {
		grace = p.grace.Monitor
	}
	blind, latest := p.blindUntil(now), now.Add(-max(grace-least, 0))
	if p.last(name, blind).Before(latest) {
		known.sign = sign{at: latest, blind: blind}
		p.heartbeats[name] = known
	}
}

// isBlind reports whether the leases cannot be watched.
func (p *probes) isBlind() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return !p.blindSince.IsZero()
}

// cannotSee notes that the leases can no longer be watched, canSee that they can again.
func (p *probes) cannotSee(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blindSince.IsZero() {
		p.blindSince = now
	}
}

func (p *probes) canSee(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blindSince.IsZero() {
		return
	}
	outage := now.Sub(p.blindSince) >= longBlindness
	p.blind = p.blindUntil(now)
	p.blindSince = time.Time{}
	if outage {
		p.leave(findAgain, now)
	}
}
