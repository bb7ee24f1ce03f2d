// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// These tests show that the rule itself keeps its promises, in the histories of TestHistories. They only compute what
// the rule says: TestHistories shows that ours does it.

// forgetfulRestarts passes every history with restarts to check, and what the rule says with and without them.
func forgetfulRestarts(t *testing.T, check func(index uint64, h *history, with, without outcome)) {
	t.Helper()
	restarts := 0
	for index := range uint64(20000) {
		h := generate(seed.Seed(), index)
		steady := *h
		steady.Steps = slices.DeleteFunc(slices.Clone(h.Steps), func(s step) bool { return isRestart(s.Do) })
		if len(steady.Steps) < len(h.Steps) {
			restarts++
			check(index, h, predict(h, none), predict(&steady, none))
		}
	}
	if restarts == 0 {
		t.Error("no history had a restart")
	}
}

func TestARestartNeverBringsAnEvictionForward(t *testing.T) {
	forgetfulRestarts(t, func(index uint64, _ *history, with, without outcome) {
		for uid, deletes := range with {
			if len(without[uid]) == 0 || deletes[0] < without[uid][0] {
				t.Fatalf("history %d: pod %s leaves at %s with the restarts, at %s without", index, uid, when(deletes), when(without[uid]))
			}
		}
	})
}

func TestARestartMovesAnEvictionByLessThanASecondWhenTimeAddedIsKnown(t *testing.T) {
	moved := 0
	forgetfulRestarts(t, func(index uint64, h *history, with, without outcome) {
		if forgets(h) {
			return
		}
		for uid, deletes := range without {
			if away(h, deletes[0], deletes[0]+sec) {
				continue // was due while no controller ran
			}
			if len(with[uid]) == 0 || with[uid][0] > deletes[0]+sec {
				t.Fatalf("history %d: pod %s leaves at %s with the restarts, at %s without", index, uid, when(with[uid]), when(deletes))
			}
			if with[uid][0] != deletes[0] {
				moved++
			}
		}
	})
	if moved == 0 {
		t.Error("no restart moved anything")
	}
}

// forgets reports whether a restart can forget more of a history than fractions of a second: when a
// taint came, if its timeAdded is not written yet, or lies in the future, when the process ends.
func forgets(h *history) bool {
	for _, node := range h.Nodes {
		for _, taint := range node.Taints {
			if taint.TimeAdded == nil || taint.TimeAdded.After(arena.Epoch) {
				return true
			}
		}
	}
	return slices.ContainsFunc(h.Steps, func(s step) bool {
		switch do := s.Do.(type) {
		case setTaint:
			return forgetsTaint(h, s.At, do)
		case changeValue: // which deadline the previous value set is not written down anywhere
			return true
		case swap:
			return !untouchedFor(h, s.At, untilWritten)
		case retime:
			return !untouchedFor(h, s.At, untilWritten) || do.TimeAdded != nil && *do.TimeAdded > s.At
		case addNode:
			return len(do.Node.Taints) > 0
		}
		return false
	})
}

func forgetsTaint(h *history, at time.Duration, do setTaint) bool {
	switch added := do.Taint.TimeAdded; {
	case added != nil && added.Sub(arena.Epoch) > at:
		return true
	case wasThere(h, at, do.Node, do.Taint.Key): // with another value, maybe
		return true
	case do.Taint.Key == corev1.TaintNodeNotReady || do.Taint.Key == corev1.TaintNodeUnreachable:
		return !untouchedFor(h, at, untilWritten)
	default:
		return added == nil && !untouchedFor(h, at, untilStamped)
	}
}

// wasThere reports whether a node may have had a taint with a key before.
func wasThere(h *history, at time.Duration, node, key string) bool {
	return slices.ContainsFunc(h.Nodes, func(n nodeSpec) bool {
		return n.Name == node && slices.ContainsFunc(n.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
	}) || slices.ContainsFunc(h.Steps, func(s step) bool {
		do, ok := s.Do.(setTaint)
		return ok && s.At < at && do.Node == node && do.Taint.Key == key
	})
}

// A taint that comes soon gets its timeAdded. If a timeAdded does not stay as it was written, it is written less and
// less often.
const (
	untilStamped = 2 * sec
	untilWritten = 40 * sec
)

// untouchedFor reports whether the controller runs at an instant, and for long enough afterwards.
func untouchedFor(h *history, from, longEnough time.Duration) bool {
	return !away(h, from-untilStamped, from+longEnough)
}

// away reports whether the controller is away at some time between two instants.
func away(h *history, from, until time.Duration) bool {
	return slices.ContainsFunc(h.Steps, func(s step) bool {
		restart, ok := s.Do.(restart)
		return ok && s.At <= until && s.At+restart.Down >= from
	})
}

// Upstream's outcome is a matter of luck when a pod is replaced before its goroutines have seen
// that the old one is gone. Ours is the same as ever.
func TestOursDoesNotNeedToSeeAPodGoBeforeItsReplacementComes(t *testing.T) {
	hasty := func(h *history) *world {
		w := newWorld(h)
		w.hasty = true
		return w
	}
	const enough = 100 // with fewer histories, it may be that none has a replacement
	replaced, played := 0, count()/5
	for index := range uint64(played) {
		h := generate(seed.Seed(), index)
		if !slices.ContainsFunc(h.specs(), func(p podSpec) bool { return p.UID != p.Name }) {
			continue
		}
		replaced++
		got, want := playIn(t, hasty, h, ours, func(*world) {}), predict(h, none)
		for _, spec := range h.specs() {
			if !near(got[spec.UID], want[spec.UID], exactly) {
				t.Errorf("history %d of seed %d: pod %s deleted at %s, want %s", index, seed.Seed(), spec.UID, when(got[spec.UID]), when(want[spec.UID]))
			}
		}
	}
	if replaced == 0 && played >= enough {
		t.Error("no pod was replaced")
	}
}
