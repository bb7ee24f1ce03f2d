// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// examine decides again about all pods of a node and reports what is due about each promise. It returns how long to
// wait before looking again; zero if there is nothing to wait for.
func (ps *promises) examine(node string, at time.Time) time.Duration {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.sweep(at)
	if !ps.verdicts.Exists(node) {
		ps.abandon(node)
		return 0
	}
	ps.decide(node, at)
	var next time.Time
	for _, p := range ps.byNode[node] {
		again := ps.look(p, at)
		if next.IsZero() || again.Before(next) {
			next = again
		}
	}
	if len(ps.byNode[node]) == 0 {
		return 0
	}
	return max(next.Sub(at), time.Millisecond)
}

// abandon forgets the promises about a node that is gone. Its pods are left to pod garbage collection.
func (ps *promises) abandon(node string) {
	for _, p := range ps.byNode[node] {
		if !p.left.IsZero() {
			ps.count(p, Unjudged)
		}
		ps.forget(p)
	}
}

// decide updates the promises about a node. What happened to pods that are terminating or gone is observed, not
// decided, because it depends on the client that deleted them.
func (ps *promises) decide(node string, at time.Time) {
	unsure, untainted := ps.unsure(node), len(ps.verdicts.Taints(node)) == 0
	for _, pod := range ps.pods.OnNode(node) {
		if pod.Flags.Has(podcache.Terminating) {
			continue
		}
		if v, leaves := ps.verdicts.Over(pod); leaves {
			ps.promise(pod).leaving(v, at, unsure || v.Due.Before(ps.began))
		} else if p := ps.byNode[node][pod.UID]; p != nil {
			p.staying(at, untainted)
		}
	}
}

// look reports what is due about a promise, and returns when to look again.
func (ps *promises) look(p *promise, at time.Time) time.Time {
	switch {
	case p.judged:
		return ps.until(p, p.leftSeen.Add(remembered), at)
	case !p.left.IsZero():
		return ps.judge(p, at)
	case p.leaves:
		return ps.await(p, at)
	case p.ended.IsZero(): // marked, and it never had to leave
		return ps.until(p, p.marked.Add(remembered), at)
	}
	ps.setOverdue(p, false)
	if p.reported {
		ps.count(p, Never)
	}
	return ps.until(p, p.ended.Add(remembered), at)
}

// count counts a pod, once.
func (ps *promises) count(p *promise, outcome Outcome) {
	if p.counted {
		return
	}
	p.counted = true
	ps.report.count(outcome)
}

// until forgets a promise at an instant.
func (ps *promises) until(p *promise, end, at time.Time) time.Time {
	if !at.Before(end) {
		ps.forget(p)
	}
	return end
}

// await looks at an existing pod that must leave.
func (ps *promises) await(p *promise, at time.Time) time.Time {
	ps.setOverdue(p, !p.due.After(at))
	missed, never := p.due.Add(MissedAfter), p.due.Add(NeverAfter)
	switch {
	case p.due.After(at):
		return p.due
	case at.Before(missed):
		return missed
	}
	if !p.reported {
		p.reported = true
		ps.tell(p, Never, ps.whyNever(p, at), at)
	}
	if at.Before(never) {
		return never
	}
	ps.count(p, Never)
	return at.Add(remembered)
}

// judge judges an eviction. If the rule does not explain it, it is judged a little later.
func (ps *promises) judge(p *promise, at time.Time) time.Time {
	ps.justify(p)
	if end := p.leftSeen.Add(judgedAfter); !p.justified() && at.Before(end) {
		return end
	}
	outcome := ps.outcome(p)
	if !p.due.IsZero() && p.hadToLeave(p.left) && outcome != Unjudged {
		ps.report.observe(p.left.Sub(p.due))
	}
	if p.counted && outcome == Late {
		outcome = Never // a counter cannot go back
	}
	ps.count(p, outcome)
	if outcome.differs() {
		ps.tell(p, outcome, ps.why(p, outcome), at)
	} else {
		ps.report.takeBack(p.pod.UID)
	}
	p.judged = true
	ps.went(p, at)
	ps.setOverdue(p, false)
	if !outcome.differs() {
		ps.forget(p)
	}
	return p.leftSeen.Add(remembered)
}

// justify looks again for what explains an unexplained eviction, because the watch of nodes may have lagged.
func (ps *promises) justify(p *promise) {
	if v, leaves := ps.verdicts.Over(p.pod); leaves && !v.Due.After(p.left.Add(Tolerance)) && !p.justified() {
		p.leaving(v, p.left, ps.unsure(p.pod.Node))
	}
}

// justified reports whether the pod was due when it was evicted.
func (p *promise) justified() bool {
	return p.hadToLeave(p.left) && !p.due.After(p.left.Add(Tolerance))
}

func (ps *promises) outcome(p *promise) Outcome {
	switch {
	case !p.justified() && (p.unsure || ps.verdicts.Listed().After(p.left)):
		return Unjudged // a taint may have come and gone unseen
	case !p.hadToLeave(p.left):
		if f, ok := ps.former[p.pod.Key()]; ok && f.uid != p.pod.UID {
			return Twice
		}
		return Stayed
	case !p.justified():
		return Early
	case p.left.Sub(p.due) > Tolerance:
		return Late
	}
	return OnTime
}
