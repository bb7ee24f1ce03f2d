// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"
)

// Ahead is the latest end that is recorded, seen from now. It is below what the policy accepts, because API servers'
// clocks differ.
const Ahead = longest - 30*time.Second

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
	// before is how much earlier than known a storm may have begun, because the clocks of API servers differ slightly.
	before = time.Second
	// sparedNodes is how many spared nodes the record names; with more it spares all.
	sparedNodes = 1000
	// together is how soon after others tries begin that count as part of them.
	together = 5 * time.Second
)

// AllNodes is the record of spared nodes that spares all.
const AllNodes = "*"

// Hold is what the controller may not mark for a while, whether the clock is fresh or not: the rest of the evictions
// that it began while Taintkeeper kept it from carrying them out. It works through these by name, at its client's rate
// limit, whatever has happened to the pods and their nodes. Until T, the last try plus slack, it may not mark
//
//   - a pod that was created since the oldest of these tries began, because it can have the name of one that left, nor
//   - a pod on a spared node: one with a pod that stays although the built-in has begun to try it.
//
// A restart of kube-controller-manager is not visible from outside, and the built-in then begins to try all due pods
// again. So whenever something is recorded or decided, all pods that are due until then count as tried now.
//
// All instants are on the timeline, so that a wrong Date cannot end it. A Hold has no clock and no lock.
type Hold struct {
	perTry time.Duration
	due    int       // pods that the built-in tries again if it restarts
	tries  []tries   // that it may still make; those that began later end later
	known  time.Time // it has made all tries but those after a restart that nobody has seen
	spared map[string]spared
}

// tries are tries of the built-in that began at about the same time: not before one instant, the last at another.
type tries struct{ from, end time.Time }

func (t tries) over(at time.Time) bool { return !at.Before(t.end.Add(slack)) }

// NewHold holds nothing. The controller may make some calls a second (--kube-api-qps).
func NewHold(qps float32) Hold {
	return Hold{perTry: time.Duration(callsPerTry / float64(qps) * float64(time.Second))}
}

// spared says when a node was spared. If another process recorded it, which pods it spared is not known.
type spared struct {
	at        time.Time
	inherited bool
}

// over reports whether nothing is held at an instant.
func (h *Hold) over(at time.Time) bool { return len(h.tries) == 0 || h.tries[len(h.tries)-1].over(at) }

// end is when the built-in has made all its calls; zero if there are none.
func (h *Hold) end() time.Time {
	if len(h.tries) == 0 {
		return time.Time{}
	}
	return h.tries[len(h.tries)-1].end
}

// since is when the oldest of the tries began.
func (h *Hold) since() (since time.Time) {
	for _, t := range h.tries {
		since = instant.Next(since, t.from)
	}
	return since
}

// Until is T, or the latest end that may be written at an instant if that is earlier.
func (h *Hold) Until(at time.Time) time.Time {
	return instant.Earlier(h.end().Add(slack), at.Add(Ahead))
}

// forget drops what is over at an instant: tries, and nodes that were spared before all that are left began.
func (h *Hold) forget(at time.Time) {
	h.tries = slices.DeleteFunc(h.tries, func(t tries) bool { return t.over(at) })
	since := h.since()
	maps.DeleteFunc(h.spared, func(_ string, s spared) bool { return len(h.tries) == 0 || s.at.Before(since) })
}

// Decided applies what the built-in does about a node.
func (h *Hold) Decided(d NodeTries, at time.Time) {
	h.Restarted(at)
	h.due = d.Due
	h.tried(d.Begun, d.From, at)
	if h.over(at) {
		return
	}
	switch is, listed := h.spared[d.Node]; {
	case !d.Spared.Before(h.since()):
		h.spareNode(d.Node, spared{at: d.Spared})
	case listed && (!is.inherited || !d.Stays):
		delete(h.spared, d.Node)
	}
}

// Leave applies, once nothing more is decided, how many pods of a node are due, and since when the first of them has
// been due. The built-in may try them once more. If some pods stay, the node is spared.
func (h *Hold) Leave(node string, pods int, since time.Time, stays bool, at time.Time) {
	h.Restarted(at)
	h.tried(pods, since, at)
	if stays {
		h.spareNode(node, spared{at: at, inherited: true})
	}
}

// tried extends the hold by tries of the built-in, the first of which began at an instant.
func (h *Hold) tried(count int, from, at time.Time) {
	if count == 0 {
		return
	}
	h.forget(at)
	took := time.Duration(count) * h.perTry
	h.addTries(tries{instant.Later(from, at.Add(-longest)).Add(-before), instant.Later(h.end(), at).Add(took)})
	h.known = instant.Later(h.known, at).Add(took)
}

// Restarted extends the hold because the built-in may have restarted by now. What it began before ends with it.
func (h *Hold) Restarted(at time.Time) {
	h.forget(at)
	if h.due > 0 {
		h.addTries(tries{at.Add(-before), at.Add(time.Duration(triesPerRestart*h.due) * h.perTry)})
	}
}

// addTries adds tries. Those that began soon after others, or end before them, count as part of these.
func (h *Hold) addTries(t tries) {
	if len(h.tries) == 0 {
		h.tries = []tries{t}
		return
	}
	last := &h.tries[len(h.tries)-1]
	if t.from.Sub(last.from) >= together && t.end.After(last.end) {
		h.tries = append(h.tries, t)
		return
	}
	last.from, last.end = instant.Earlier(last.from, t.from), instant.Later(last.end, t.end)
}

func (h *Hold) spareNode(node string, as spared) {
	if h.spared == nil {
		h.spared = map[string]spared{}
	}
	h.spared[node] = as
}

// Stalled extends a hold by the time in which the API server did not answer.
func (h *Hold) Stalled(from, to time.Time) {
	for i := range h.tries {
		if !h.tries[i].over(from) {
			h.tries[i].end = h.tries[i].end.Add(to.Sub(from))
		}
	}
	if h.known.After(from) {
		h.known = h.known.Add(to.Sub(from))
	}
}

// Nodes returns the names of the spared nodes, in order; nil and true if all nodes are spared.
func (h *Hold) Nodes() (names []string, all bool) {
	if _, all = h.spared[AllNodes]; all || len(h.spared) > sparedNodes {
		return nil, true
	}
	return slices.Sorted(maps.Keys(h.spared)), false
}

// Record is a Hold as the annotations have it. The zero value means none.
type Record struct {
	Since, Until time.Time
	Spared       string
}

// Record returns what to write of a hold at an instant.
func (h *Hold) Record(at time.Time) Record {
	if h.forget(at); h.over(at) {
		return Record{}
	}
	names, all := h.Nodes()
	if all {
		names = []string{AllNodes}
	}
	return Record{
		Since:  h.since().Truncate(time.Second),
		Until:  h.Until(at).Add(time.Second - 1).Truncate(time.Second),
		Spared: strings.Join(names, " "),
	}
}

// Covers reports whether what is written is good enough. An earlier end is, as long as little of the slack is missing;
// otherwise each pod of a storm would need a write of its own.
func (r Record) Covers(want Record) bool {
	const missing = slack / 4
	return want.Until.IsZero() ||
		!r.Since.After(want.Since) && r.Spared == want.Spared && !r.Until.Add(missing).Before(want.Until)
}

// Merge adds what another process has written: the later end, the earlier beginning, and all nodes that it spared. This
// process has seen what the built-in does only since some instant. It does not know the tries of a storm that began
// earlier, which the built-in makes in addition to the known ones.
func (h *Hold) Merge(r Record, at, born time.Time) {
	if !r.Until.After(at) || r.Until.After(at.Add(longest)) {
		return
	}
	h.forget(at)
	end := r.Until.Add(-slack)
	if !h.over(at) && r.Since.Before(h.since()) && r.Since.Before(born) {
		end = end.Add(h.left(at))
	}
	h.addTries(tries{r.Since, instant.Later(h.end(), end)})
	h.known = instant.Later(h.known, end)
	for name := range strings.FieldsSeq(r.Spared) {
		if _, ok := h.spared[name]; !ok {
			h.spareNode(name, spared{at: at, inherited: true})
		}
	}
}

// Tries returns how many tries the built-in may still make, at most.
func (h *Hold) Tries(at time.Time) int {
	return int((h.left(at) + h.perTry - 1) / h.perTry)
}

// left returns how long the built-in may still be busy after an instant, without the slack.
func (h *Hold) left(at time.Time) time.Duration { return max(h.end().Sub(at), 0) }

// Working returns how long it is busy even if it has not restarted unseen.
func (h *Hold) Working(at time.Time) time.Duration { return max(h.known.Sub(at), 0) }
