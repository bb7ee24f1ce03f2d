// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// Tolerance is by how much an eviction may differ from the rule and still be on time: timeAdded, the binding and
	// the deletion of a pod are each recorded to the second.
	Tolerance = 2 * time.Second
	// MissedAfter is how long a pod is due before it is reported as not evicted.
	MissedAfter = time.Minute
	// NeverAfter is how long a pod is due before that is counted, because counters cannot go back.
	NeverAfter = 10 * time.Minute

	// judgedAfter is how long an eviction that the rule does not explain waits to be judged. The watch of nodes may bring
	// a taint later than the watch of pods brings its effect.
	judgedAfter = 5 * time.Second
	// remembered is how long a pod that need no longer leave, or that is gone, is remembered. It explains what the
	// built-in does afterwards.
	remembered = 10 * time.Minute
)

// promise is what is known about a pod that must leave its node, that had to leave, or that was evicted without having
// to.
type promise struct {
	pod *podcache.Pod // as it was before it was terminating

	leaves bool           // it must leave
	due    time.Time      // when it must or had to leave
	reason verdict.Reason // the newest verdict by which it had to leave
	unsure bool           // the countdown began at an unknown instant, before this process saw it
	first  countdown      // the one with which the built-in began, if it was seen
	ended  time.Time      // since when it has no longer had to leave; zero if it must
	// untainted means that it no longer had to leave because the node no longer has a NoExecute taint.
	untainted bool

	marked   time.Time // when the built-in's mark was first seen
	left     time.Time // when the built-in deleted it
	leftSeen time.Time // when the delete was seen

	overdue  bool   // it is due and still exists
	ahead    uint64 // how many evictions had been seen when it became due
	reported bool   // as not evicted
	counted  bool   // it is in the counter
	judged   bool   // there is nothing more to report
}

// countdown is a countdown that the built-in may have begun, given what it could see.
type countdown struct {
	key     string // the key of the taint
	seconds int64
	due     time.Time // zero if not known
}

// leaving notes that the pod must leave according to the newest verdict. Nothing can evict it before that can be seen:
// a taint may arrive with an old timeAdded, and a shorter toleration may already have expired when it is set.
func (p *promise) leaving(v verdict.Verdict, at time.Time, unsure bool) {
	if !p.leaves {
		p.first = countdown{}
		if v.Toleration != nil && !unsure {
			p.first = begins(v.Reason, at)
		}
	}
	switch {
	case v.Due.After(at):
		p.due = v.Due
	case !p.leaves || p.due.After(at):
		p.due = at
	}
	p.leaves, p.reason, p.unsure = true, v.Reason, unsure
	p.ended, p.untainted = time.Time{}, false
}

// begins returns the countdown that the built-in begins when it sees, at an instant, that a pod must leave.
func begins(reason verdict.Reason, at time.Time) countdown {
	seconds := *reason.Toleration.TolerationSeconds
	if seconds <= 0 || seconds > overflows {
		return countdown{}
	}
	return countdown{key: reason.Taint.Key, seconds: seconds, due: at.Add(time.Duration(seconds) * time.Second)}
}

// staying notes that the pod need no longer leave.
func (p *promise) staying(at time.Time, untainted bool) {
	if p.leaves {
		p.leaves, p.ended, p.untainted = false, at, untainted
	}
}

// hadToLeave reports whether the pod had to leave at an instant, or until just before.
func (p *promise) hadToLeave(at time.Time) bool {
	return p.leaves || !p.ended.IsZero() && at.Sub(p.ended) <= Tolerance
}

// tolerated returns for how many seconds the deciding taint is tolerated; zero if it is not.
func (p *promise) tolerated() int64 {
	if p.reason.Toleration == nil || p.reason.Toleration.TolerationSeconds == nil {
		return 0
	}
	return max(*p.reason.Toleration.TolerationSeconds, 0)
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() <= Tolerance }
