// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

const (
	// confirmedFor is how long one live read of a node is used; see package eviction.
	confirmedFor = 500 * time.Millisecond
	// haste is how long it may take from a decision until the proxy has the call, and from an event's arrival at our watch
	// until a replica whose watch is in order knows it: two processors run everything here, a whole control plane
	// included.
	haste = 500 * time.Millisecond
	// catchUp is how long a watch that was opened again, or held up, may take to be up to date.
	catchUp = time.Second
)

// hasteAt is haste plus the stalls shortly before an instant.
func (h *history) hasteAt(instant time.Time) time.Duration {
	const before = 2 * time.Second
	return haste + h.stalled(instant.Add(-before), instant)
}

// knowledge is what a replica can have known when it sent a call: every state of the pod and of its node that it may
// have taken for the present one, put together in every way.
type knowledge struct {
	nodeSince       time.Time
	due             bool      // in at least one combination, the pod was due
	leaves          bool      // in at least one combination, the pod had to leave, if only later
	earliest        time.Time // then
	onlyTerminating bool      // in every combination, the pod was already leaving
}

func (h *history) knowledge(c *call, p *pod) knowledge {
	return h.known(p, c.received, h.podKnownSince(c), func(node string) time.Time { return h.nodeKnownSince(c, node) })
}

// watched is what the watches of the replica that sent a call must have brought by an instant, while the call was under
// way.
func (h *history) watched(c *call, p *pod, by time.Time) knowledge {
	ofNode := func(string) time.Time { return h.watchedSince(c, watchNodes, by) }
	return h.known(p, by, h.watchedSince(c, watchPods, by), ofNode)
}

// watchedSince says how old the newest state can be that a watch of a call's sender has delivered by an instant.
func (h *history) watchedSince(c *call, kind callKind, by time.Time) time.Time {
	var since time.Time
	for _, s := range h.streams {
		if s.process == c.process && s.kind == kind {
			since = oracle.Later(since, s.inOrderUntil(by))
		}
	}
	return since.Add(-h.hasteAt(by))
}

// known puts together what can have been known at an instant, given how old it can be.
func (h *history) known(p *pod, by, podSince time.Time, nodeSince func(node string) time.Time) knowledge {
	known := knowledge{onlyTerminating: true}
	for i, state := range p.states {
		if state.from.From.After(by) || p.visibleUntil(i).Before(podSince) {
			continue
		}
		if state.terminating {
			continue
		}
		known.onlyTerminating = false
		if state.mirror || state.node == "" {
			continue
		}
		known.nodeSince = nodeSince(state.node)
		known.consider(by, state, h.nodes[state.node])
	}
	return known
}

// consider takes all states of the pod's node that the replica may have taken for the present one.
func (k *knowledge) consider(sent time.Time, state podState, nodes []nodeState) {
	for i, node := range nodes {
		if node.from.From.After(sent) || i+1 < len(nodes) && nodes[i+1].from.To.Before(k.nodeSince) {
			continue
		}
		due, leaves := state.due(node.taints)
		if !leaves {
			continue
		}
		if !k.leaves || due.From.Before(k.earliest) {
			k.leaves, k.earliest = true, due.From
		}
		k.due = k.due || !due.From.After(sent)
	}
}

// visibleUntil is when the state after the given one was there for every watch to see.
func (p *pod) visibleUntil(i int) time.Time {
	if i+1 == len(p.states) || p.states[i+1].visible.IsZero() {
		return distantFuture
	}
	return oracle.Later(p.states[i+1].visible, p.states[i+1].from.To)
}

// nodeKnownSince says how old the taints on which a call was based can be. A live read of the node confirmed them. It
// is not older than confirmedFor, or has just been answered, however long that took.
func (h *history) nodeKnownSince(c *call, node string) time.Time {
	haste := h.hasteAt(c.received)
	oldest := c.received.Add(-haste)
	for _, read := range h.calls {
		if read.received.After(c.received) {
			break
		}
		ofNode := read.kind == getNode && read.name == node
		if !ofNode || read.process != c.process || !read.delivered() || read.told.After(c.received.Add(haste)) {
			continue
		}
		if read.received.After(c.received.Add(-confirmedFor-haste)) || read.told.After(c.received.Add(-haste)) {
			oldest = oracle.Earlier(oldest, read.forwarded)
		}
	}
	return oldest
}

// podKnownSince says how old the state of the pod on which a call was based can be: as old as the last moment at which
// the replica's watch of pods was in order, and no older than its process. A DELETE is decided by the pod as the API
// server has just shown it, in its answer to the PATCH of the condition or to a GET.
func (h *history) podKnownSince(c *call) time.Time {
	since := oracle.Later(h.watchedSince(c, watchPods, c.received), h.beginOf(c).Add(haste-h.hasteAt(c.received)))
	if c.kind == deletePod {
		since = oracle.Later(since, h.shown(c))
	}
	return since
}

// shown returns from when the pod that the API server last showed before a DELETE can be. It is zero if that answer did
// not arrive.
func (h *history) shown(c *call) time.Time {
	var last *call
	for _, before := range h.calls {
		if !before.received.Before(c.received) {
			break
		}
		about := before.kind == patchPod && before.uid == c.uid || before.kind == getPod && before.name == c.name
		if about && before.process == c.process {
			last = before
		}
	}
	if last == nil || !last.delivered() {
		return time.Time{}
	}
	return last.forwarded
}

// beginOf is when the process that sent a call began.
func (h *history) beginOf(c *call) time.Time {
	for _, life := range h.lives {
		if life.process == c.process {
			return life.began
		}
	}
	return time.Time{}
}

// inOrderUntil returns the last instant, up to the given one, at which the watch was up to date; the zero time if it
// never was.
func (s *stream) inOrderUntil(limit time.Time) time.Time {
	last := limit
	if !s.closed.IsZero() {
		last = oracle.Earlier(last, s.closed)
	}
	for _, held := range slices.Backward(s.stalls) {
		if !last.Before(held.From) && last.Before(held.To.Add(catchUp)) {
			last = held.From
		}
	}
	if last.Before(s.opened.Add(catchUp)) {
		return time.Time{}
	}
	return last
}
