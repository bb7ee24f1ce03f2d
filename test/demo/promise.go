// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// phase is a time during which the taints of a node stay the same. It ends where the next one begins.
type phase struct {
	from   time.Time
	taints []verdict.Taint
}

// timeline is what happens to the taints of one node, oldest first. It is never modified; next makes a longer one.
type timeline []phase

// next appends a phase with the given taints of the node. A taint of the phase before keeps the instant from which it
// counts; another counts from at.
func (t timeline) next(at time.Time, nodeTaints []corev1.Taint) timeline {
	noExecute := taints.NoExecute(nodeTaints)
	next := phase{from: at, taints: make([]verdict.Taint, len(noExecute))}
	for i, taint := range noExecute {
		next.taints[i] = verdict.Taint{Taint: taint, Since: verdict.SeenAt(t.firstSeen(taint, at)).Since(taint.TimeAdded)}
	}
	return append(slices.Clip(t), next)
}

func (t timeline) firstSeen(taint corev1.Taint, at time.Time) time.Time {
	if len(t) == 0 {
		return at
	}
	for _, known := range t[len(t)-1].taints {
		if known.MatchTaint(&taint) && known.Value == taint.Value {
			return known.Since
		}
	}
	return at
}

// end returns when phase i ends; the last one never does.
func (t timeline) end(i int) time.Time {
	if i == len(t)-1 {
		return verdict.Latest
	}
	return t[i+1].from
}

// promise is what the taints of a timeline mean for one pod.
type promise struct {
	// Verdict is the one that decides, and says when the pod is due, if ever.
	verdict.Verdict
	// why is the verdict's reason or, when the taints are gone, the last one there was: it explains what happened.
	why verdict.Reason
	// replaced is the last verdict that a change of the taints made void before it was carried out, nil if there is none.
	replaced *verdict.Verdict
}

// cancelled reports whether the pod was due once, and now stays.
func (p promise) cancelled() bool { return p.Stays() && p.replaced != nil }

// moved reports whether the pod was due at another instant before.
func (p promise) moved() bool { return p.Leaves && p.replaced != nil }

// settledBy returns the instant after which nothing new is to be learned about the pod: when it is due or, for one
// whose eviction was cancelled, when it was. It is zero for a pod that was never due.
func (p promise) settledBy() time.Time {
	switch {
	case p.Leaves:
		return p.Due
	case p.cancelled():
		return p.replaced.Due
	}
	return time.Time{}
}

// expect says what is promised to a pod. It goes through the phases until the pod leaves.
func expect(rule verdict.Rule, pod verdict.Pod, t timeline) promise {
	var result promise
	for i := range t {
		end := t.end(i)
		if !pod.Bound.Before(end) {
			continue
		}
		v := rule.Decide(pod, t[i].taints)
		if before := result.Verdict; before.Leaves && (v.Stays() || !v.Due.Equal(before.Due)) {
			result.replaced = &before
		}
		result.Verdict = v
		if v.Taint.Key != "" {
			result.why = v.Reason
		}
		if v.Leaves && v.Due.Before(end) {
			return result
		}
	}
	return result
}

// outcome is how a promise compares with what was seen.
type outcome int

const (
	// waiting is for a pod that is not due yet, or was just now.
	waiting outcome = iota
	// stayed is for a pod that is promised to stay, and has.
	stayed
	// evicted is for a pod that was evicted on time.
	evicted
	// tooEarly is for a pod that left before it was due.
	tooEarly
	// tooLate is for a pod that left longer than tolerableLateness after it was due.
	tooLate
	// leftOver is for a pod that is still there that long after it was due.
	leftOver
	// broken is for a pod that left although it is promised to stay.
	broken
	// unmarked is for a pod that left on time, but without the condition that every taint eviction sets.
	unmarked
)

// tolerableLateness is the lateness that still counts as kept. It is generous: the machine may be a small one that
// runs a whole control plane and a build.
const tolerableLateness = 5 * time.Second

// kept reports whether the outcome is as it should be.
func (o outcome) kept() bool { return o == waiting || o == stayed || o == evicted }

// judge compares the promise to a pod with what was seen of it until now.
func judge(p promise, s sighting, now time.Time) outcome {
	switch {
	case s.left.IsZero():
		return judgePresent(p, now)
	case p.Stays():
		return broken
	case s.left.Before(p.Due):
		return tooEarly
	case s.left.Sub(p.Due) > tolerableLateness:
		return tooLate
	case !s.marked:
		return unmarked
	}
	return evicted
}

func judgePresent(p promise, now time.Time) outcome {
	switch {
	case p.Stays():
		return stayed
	case now.Sub(p.Due) > tolerableLateness:
		return leftOver
	}
	return waiting
}

// lateness is how long after it was due a pod left.
func lateness(p promise, s sighting) time.Duration { return s.left.Sub(p.Due) }
