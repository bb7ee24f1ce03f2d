// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"slices"
	"testing"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// health is the game of the node-lifecycle controllers.
var health = game{
	generate: generateHealth, ours: oursOfNodes, upstream: upstreamOfNodes,
	outcome: func(w *world) outcome { return w.nodes },
	rule:    predictOurs,
	model:   predictUpstream,
	agree:   agreeWithinAPass,
	quirks: []string{
		"taken off at the start", "lease forgotten", "order of the pass", "wasted token", "rate by state only", "record by name",
		"taken off once", "new limiter", "token at the start", "grace for the unheard", "new timeAdded", "lease written",
	},
	enough: 3000,
}

// The quirks of upstream's node-lifecycle controller, next to acting in passes. The lines quoted are from
// pkg/controller/nodelifecycle/node_lifecycle_controller.go.
const (
	// startOff: the first pass of a process takes the NoExecute taints off every node, and so does any
	// pass that sees a node for the first time; it queues the nodes that need one again.
	// monitorNodeHealth: for i := range added { ... nc.markNodeAsReachable(ctx, added[i]) }.
	startOff quirks = 1 << iota
	// leaseForgotten: a heartbeat makes a new record of the node, without its lease, so the next pass
	// counts the lease as new, and silence begins a period later.
	// tryUpdateNodeHealth: nodeHealth = &nodeHealthData{status, probeTimestamp, readyTransitionTimestamp},
	// then savedLease == nil.
	leaseForgotten
	// passOrder: every pass queues every waiting node again, so nodes are tainted in the order in which
	// the latest pass reached them, not in the order in which they failed.
	// markNodeForTainting: Remove, then Add.
	passOrder
	// wastedTokens: a node that is ready again or gone uses up a token if a token comes for it before the
	// next pass. scheduler.RateLimitedTimedQueue.Try: TryAccept before fn.
	wastedTokens
	// stateOnly: a zone's rate is set when its state changes, not when its size does.
	// handleDisruption: if v == newState { continue }.
	stateOnly
	// recordByName: what is known about a node outlives it, and is attributed to the next node with its name. nodeHealthMap
	// and knownNodeSet have names as keys, and nothing is taken out of the former.
	recordByName
	// offOnce: when all zones are fully disrupted NoExecute taints are removed once; one that somebody sets later stays,
	// and may be changed for the other. handleDisruption: if !allAreFullyDisrupted || !allWasFullyDisrupted.
	offOnce
	// newLimiter: when the rate of a zone changes, what has accrued of a token is lost.
	// scheduler.RateLimitedTimedQueue.SwapLimiter.
	newLimiter
	// tokenAtStart: a start gives every zone a token.
	// addPodEvictorForNewZone: NewRateLimitedTimedQueue(NewTokenBucketRateLimiter(..., EvictionRateLimiterBurst)).
	tokenAtStart
	// graceForUnheard: when not all zones are fully disrupted any longer, a node that never gave a sign of life has
	// its start-up grace period again.
	// handleDisruption: for i := range nodes { v := nc.nodeHealthMap.getDeepCopy(...); v.probeTimestamp = now }.
	graceForUnheard
	// newTimeAdded: a NoExecute taint that takes the place of the other has a new timeAdded, so that the countdowns of
	// the node's pods begin again. util/node.SwapNodeControllerTaint: taintToAdd.TimeAdded = &now.
	newTimeAdded
	// leaseWritten: since 1.37, a pass skips a silent node whose Lease has been written since it was renewed.
	// tryUpdateNodeHealth: if liveLease.ResourceVersion != nodeHealthLeaseRV; only a renewal changes the latter.
	leaseWritten
)

// TestHealth plays random histories to upstream's node-lifecycle controller and to ours, and explains every difference.
func TestHealth(t *testing.T) { health.play(t, seed.Count(300)) }

// tolerance is how much later than the rule upstream may do the same, so that both agree. Silence counts from when a
// sign of life came, and the rule acts when the grace period is over. Upstream sees the sign in the next pass, within a
// period. The grace period is a multiple of it, and a pass comes a few microseconds later than a period after the last,
// so the pass in which it is over finds it over. A token is then taken at the next tick, and each token before it was
// late by a tick as well: a zone of a history has ten nodes at most. Ours in turn finds silence with its next echo.
const tolerance = period + 11*tick

// agreeWithinAPass reports whether upstream does what the rule says, somewhat later. What depends on more than the
// node's own readiness, its NoExecute taints, may come later than the rest.
func agreeWithinAPass(rule, upstream []look) bool {
	for _, part := range []func(look) look{
		func(l look) look { return look{at: l.at, gone: l.gone, ready: l.ready, noSchedule: l.noSchedule} },
		func(l look) look { return look{at: l.at, gone: l.gone, noExecute: l.noExecute, since: l.since} },
	} {
		if !slices.EqualFunc(aspect(rule, part), aspect(upstream, part), func(a, b look) bool {
			late := b.at - a.at
			return a.same(b, tolerance+resolution) && late >= -exactly-echoEach && late <= tolerance
		}) {
			return false
		}
	}
	return true
}

// aspect reduces looks to one part of them, and returns those at which that part changed.
func aspect(looks []look, part func(look) look) []look {
	var found []look
	for _, l := range looks {
		if next := part(l); len(found) == 0 || !found[len(found)-1].same(next, 0) {
			found = append(found, next)
		}
	}
	return found
}
