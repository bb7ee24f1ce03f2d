// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
)

const (
	// callsPerTry is the most calls that one try of the built-in makes: an event, and five times GET and PATCH
	// (pkg/controller/tainteviction/taint_eviction.go). Measured on v1.36.3: 320 refused tries took 155 s at 20 calls a
	// second.
	callsPerTry = 11
	// slack is how much longer than computed the built-in may take. A stalled API server delays it, as do calls that get a
	// 429 or 5xx and that client-go repeats.
	slack = 2 * time.Minute
	// longest is how far ahead the policy accepts backlog-until; see charts/taintkeeper/templates/coexistence.yaml. The
	// record stays below it, because API servers' clocks differ.
	longest = 10 * time.Minute
	ahead   = longest - 30*time.Second
	// before is how much earlier than known a storm may have begun, because the clocks of API servers differ slightly.
	before = time.Second
	// sparedNodes is how many spared nodes the record names; with more it spares all.
	sparedNodes = 1000
	allNodes    = "*"
)

// hold is what the built-in may not mark for a while, whether the clock is fresh or not: the rest of the evictions that
// it began while Taintkeeper kept it from carrying them out. It works through these by name, at its client's rate
// limit, whatever has happened to the pods and their nodes. Until T (end plus slack), it therefore may not mark
//
//   - a pod that was created since the storm began, because it can have the name of one that left, nor
//   - a pod on a spared node: one with a pod that the built-in has tried in this storm and that stays.
//
// All instants are on the timeline, so that a wrong Date cannot end it. A hold has no clock and no lock; the zero value
// holds nothing.
type hold struct {
	since  time.Time       // the storm began
	end    time.Time       // the built-in has made all its calls
	spared map[string]bool // nodes; true if another process recorded it, so which pods it spared is not known
	all    bool            // every node is spared
}

// over reports whether nothing is held at an instant.
func (h *hold) over(at time.Time) bool { return h.end.IsZero() || !at.Before(h.end.Add(slack)) }

// until is T, or the latest end that may be written at an instant if that is earlier.
func (h *hold) until(at time.Time) time.Time {
	return timeline.Earlier(h.end.Add(slack), at.Add(ahead))
}

// decided applies what the built-in does about a node, on the timeline. Each try takes it perTry.
func (h *hold) decided(d eviction.NodeDecision, at time.Time, perTry time.Duration) {
	if h.tried(d.Tries, d.From, at, perTry); h.over(at) {
		return
	}
	switch inherited, listed := h.spared[d.Node]; {
	case !d.Spared.Before(h.since):
		h.spare(d.Node, false)
	case listed && (!inherited || !d.Stays):
		delete(h.spared, d.Node)
	}
}

// tried extends the hold by tries of the built-in, the first of which began at an instant.
func (h *hold) tried(tries int, from, at time.Time, perTry time.Duration) {
	if tries == 0 {
		return
	}
	if h.over(at) {
		*h = hold{since: at}
	}
	h.end = timeline.Later(h.end, at).Add(time.Duration(tries) * perTry)
	h.since = timeline.Earlier(h.since, timeline.Later(from, at.Add(-longest)).Add(-before))
}

func (h *hold) spare(node string, inherited bool) {
	if h.spared == nil {
		h.spared = map[string]bool{}
	}
	h.spared[node] = inherited
}

// stalled extends a hold by the time in which the API server did not answer.
func (h *hold) stalled(from, to time.Time) {
	if !h.over(from) {
		h.end = h.end.Add(to.Sub(from))
	}
}

// left returns how long the built-in is still busy after an instant, without the slack.
func (h *hold) left(at time.Time) time.Duration { return max(h.end.Sub(at), 0) }

// nodes returns the names of the spared nodes, in order; nil and true if all nodes are spared.
func (h *hold) nodes() (names []string, all bool) {
	if h.all || len(h.spared) > sparedNodes {
		return nil, true
	}
	return slices.Sorted(maps.Keys(h.spared)), false
}

// record is a hold as the annotations have it. The zero value means none.
type record struct {
	since, until time.Time
	spared       string
}

// record returns what to write of a hold at an instant.
func (h *hold) record(at time.Time) record {
	if h.over(at) {
		return record{}
	}
	names, all := h.nodes()
	if all {
		names = []string{allNodes}
	}
	return record{
		since:  h.since.Truncate(time.Second),
		until:  h.until(at).Add(time.Second - 1).Truncate(time.Second),
		spared: strings.Join(names, " "),
	}
}

// covers reports whether what is written is good enough. An earlier end is, as long as little of the slack is missing;
// otherwise each pod of a storm would need a write of its own.
func (r record) covers(want record) bool {
	const missing = slack / 4
	return want.until.IsZero() ||
		!r.since.After(want.since) && r.spared == want.spared && !r.until.Add(missing).Before(want.until)
}

// merge adds what another process has written: the later end, the earlier beginning, and all nodes that it spared. This
// process has seen what the built-in does only since some instant. It does not know the tries of a storm that began
// earlier, which the built-in makes in addition to the known ones.
func (h *hold) merge(r record, at, witnessed time.Time) {
	if !r.until.After(at) || r.until.After(at.Add(longest)) {
		return
	}
	end := r.until.Add(-slack)
	switch {
	case h.over(at):
		*h = hold{since: r.since}
	case r.since.Before(h.since) && r.since.Before(witnessed):
		end = end.Add(h.left(at))
	}
	h.since = timeline.Earlier(h.since, r.since)
	h.end = timeline.Later(h.end, end)
	for name := range strings.FieldsSeq(r.spared) {
		if _, ok := h.spared[name]; name == allNodes {
			h.all = true
		} else if !ok {
			h.spare(name, true)
		}
	}
}
