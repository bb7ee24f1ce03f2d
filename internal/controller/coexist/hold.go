// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

const (
	// callsPerTry is the most calls that one try of the built-in makes: an event, and five times GET and PATCH
	// (pkg/controller/tainteviction/taint_eviction.go). Measured on v1.36.3: 320 refused tries took 155 s at 20 calls a
	// second.
	callsPerTry = 11
	// triesPerRestart is how often a built-in that has restarted tries a due pod: once when its watch of nodes brings the
	// node, and once when its watch of pods brings the pod. Measured on v1.37.2: 80 tries of 40 pods.
	triesPerRestart = 2
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
// limit, whatever has happened to the pods and their nodes. Until T, the last try plus slack, it may not mark
//
//   - a pod that was created since the oldest of these tries began, because it can have the name of one that left, nor
//   - a pod on a spared node: one with a pod that stays although the built-in has begun to try it.
//
// A restart of kube-controller-manager is not visible from outside, and the built-in then begins to try all due pods
// again. So whenever something is recorded or decided, all pods that are due until then count as tried now.
//
// All instants are on the timeline, so that a wrong Date cannot end it. A hold has no clock and no lock; the zero value
// holds nothing.
type hold struct {
	due    int       // pods that the built-in tries again if it restarts
	tries  []tries   // that it may still make; those that began later end later
	known  time.Time // it has made all tries but those after a restart that nobody has seen
	spared map[string]spared
}

// tries are tries of the built-in that began at about the same time: not before one instant, the last at another.
type tries struct{ from, end time.Time }

func (t tries) over(at time.Time) bool { return !at.Before(t.end.Add(slack)) }

// spared says when a node was spared. If another process recorded it, which pods it spared is not known.
type spared struct {
	at        time.Time
	inherited bool
}

// over reports whether nothing is held at an instant.
func (h *hold) over(at time.Time) bool { return len(h.tries) == 0 || h.tries[len(h.tries)-1].over(at) }

// end is when the built-in has made all its calls; zero if there are none.
func (h *hold) end() time.Time {
	if len(h.tries) == 0 {
		return time.Time{}
	}
	return h.tries[len(h.tries)-1].end
}

// since is when the oldest of the tries began.
func (h *hold) since() (since time.Time) {
	for _, t := range h.tries {
		since = timeline.Next(since, t.from)
	}
	return since
}

// until is T, or the latest end that may be written at an instant if that is earlier.
func (h *hold) until(at time.Time) time.Time {
	return timeline.Earlier(h.end().Add(slack), at.Add(ahead))
}

// forget drops what is over at an instant: tries, and nodes that were spared before all that are left began.
func (h *hold) forget(at time.Time) {
	h.tries = slices.DeleteFunc(h.tries, func(t tries) bool { return t.over(at) })
	since := h.since()
	maps.DeleteFunc(h.spared, func(_ string, s spared) bool { return len(h.tries) == 0 || s.at.Before(since) })
}

// decided applies what the built-in does about a node, on the timeline. Each try takes it perTry.
func (h *hold) decided(d nodeTries, at time.Time, perTry time.Duration) {
	h.restarted(at, perTry)
	h.due = d.due
	h.tried(d.begun, d.from, at, perTry)
	if h.over(at) {
		return
	}
	switch is, listed := h.spared[d.node]; {
	case !d.spared.Before(h.since()):
		h.spareNode(d.node, spared{at: d.spared})
	case listed && (!is.inherited || !d.stays):
		delete(h.spared, d.node)
	}
}

// tried extends the hold by tries of the built-in, the first of which began at an instant.
func (h *hold) tried(count int, from, at time.Time, perTry time.Duration) {
	if count == 0 {
		return
	}
	h.forget(at)
	took := time.Duration(count) * perTry
	h.addTries(tries{timeline.Later(from, at.Add(-longest)).Add(-before), timeline.Later(h.end(), at).Add(took)})
	h.known = timeline.Later(h.known, at).Add(took)
}

// restarted extends the hold because the built-in may have restarted by now. What it began before ends with it.
func (h *hold) restarted(at time.Time, perTry time.Duration) {
	h.forget(at)
	if h.due > 0 {
		h.addTries(tries{at.Add(-before), at.Add(time.Duration(triesPerRestart*h.due) * perTry)})
	}
}

// addTries adds tries. Those that began soon after others, or end before them, count as part of these.
func (h *hold) addTries(t tries) {
	if len(h.tries) == 0 {
		h.tries = []tries{t}
		return
	}
	last := &h.tries[len(h.tries)-1]
	if t.from.Sub(last.from) >= renewEvery && t.end.After(last.end) {
		h.tries = append(h.tries, t)
		return
	}
	last.from, last.end = timeline.Earlier(last.from, t.from), timeline.Later(last.end, t.end)
}

func (h *hold) spareNode(node string, as spared) {
	if h.spared == nil {
		h.spared = map[string]spared{}
	}
	h.spared[node] = as
}

// stalled extends a hold by the time in which the API server did not answer.
func (h *hold) stalled(from, to time.Time) {
	for i := range h.tries {
		if !h.tries[i].over(from) {
			h.tries[i].end = h.tries[i].end.Add(to.Sub(from))
		}
	}
	if h.known.After(from) {
		h.known = h.known.Add(to.Sub(from))
	}
}

// nodes returns the names of the spared nodes, in order; nil and true if all nodes are spared.
func (h *hold) nodes() (names []string, all bool) {
	if _, all = h.spared[allNodes]; all || len(h.spared) > sparedNodes {
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
	if h.forget(at); h.over(at) {
		return record{}
	}
	names, all := h.nodes()
	if all {
		names = []string{allNodes}
	}
	return record{
		since:  h.since().Truncate(time.Second),
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
	h.forget(at)
	end := r.until.Add(-slack)
	if !h.over(at) && r.since.Before(h.since()) && r.since.Before(witnessed) {
		end = end.Add(h.left(at))
	}
	h.addTries(tries{r.since, timeline.Later(h.end(), end)})
	h.known = timeline.Later(h.known, end)
	for name := range strings.FieldsSeq(r.spared) {
		if _, ok := h.spared[name]; !ok {
			h.spareNode(name, spared{at: at, inherited: true})
		}
	}
}

// left returns how long the built-in may still be busy after an instant, without the slack.
func (h *hold) left(at time.Time) time.Duration { return max(h.end().Sub(at), 0) }

// working returns how long it is busy even if it has not restarted unseen.
func (h *hold) working(at time.Time) time.Duration { return max(h.known.Sub(at), 0) }
