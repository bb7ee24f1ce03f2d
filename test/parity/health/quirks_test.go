// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// quirks is a set of differences between upstream and the rule, except that upstream acts in passes.
type quirks int

// The lines quoted below are from pkg/controller/nodelifecycle/node_lifecycle_controller.go.
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
	// byName: what is known about a node outlives it, and is attributed to the next node with its name. nodeHealthMap
	// and knownNodeSet have names as keys, and nothing is taken out of the former.
	byName
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

	none quirks = 0
	all         = leaseWritten<<1 - 1
)

var quirkNames = []struct {
	quirk quirks
	name  string
}{
	{startOff, "taken off at the start"},
	{leaseForgotten, "lease forgotten"},
	{passOrder, "order of the pass"},
	{wastedTokens, "wasted token"},
	{stateOnly, "rate by state only"},
	{byName, "record by name"},
	{offOnce, "taken off once"},
	{newLimiter, "new limiter"},
	{tokenAtStart, "token at the start"},
	{graceForUnheard, "grace for the unheard"},
	{newTimeAdded, "new timeAdded"},
	{leaseWritten, "lease written"},
}

func (q quirks) has(other quirks) bool { return q&other != 0 }

func (q quirks) size() int { return bits.OnesCount(uint(q)) }

func (q quirks) String() string {
	names := []string{"passes"}
	for _, known := range quirkNames {
		if q.has(known.quirk) {
			names = append(names, known.name)
		}
	}
	return strings.Join(names, " + ")
}

// bySize holds every set of quirks, the small ones first.
var bySize = func() []quirks {
	var sets []quirks
	for set := none; set <= all; set++ {
		sets = append(sets, set)
	}
	slices.SortStableFunc(sets, func(a, b quirks) int { return cmp.Compare(a.size(), b.size()) })
	return sets
}()
