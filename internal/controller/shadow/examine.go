// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// examine decides again about all pods of a node and says what there is to say about each promise. It returns how long
// to wait before looking again; zero if there is nothing to wait for.
func (b *book) examine(node string, at time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(at)
	if !b.verdicts.Exists(node) {
		b.abandon(node)
		return 0
	}
	b.decide(node, at)
	var next time.Time
	for _, p := range b.byNode[node] {
		again := b.look(p, at)
		if next.IsZero() || again.Before(next) {
			next = again
		}
	}
	if len(b.byNode[node]) == 0 {
		return 0
	}
	return max(next.Sub(at), time.Millisecond)
}

// abandon forgets the promises about a node that is gone: its pods are left to the pod garbage collection.
func (b *book) abandon(node string) {
	for _, p := range b.byNode[node] {
		if !p.left.IsZero() {
			b.count(p, Unjudged)
		}
		b.forget(p)
	}
}

// decide brings the promises about a node up to date. What happens to pods that terminate or are gone is observed, not
// decided: it depends on who deleted them.
func (b *book) decide(node string, at time.Time) {
	unsure, untainted := b.unsure(node), len(b.verdicts.Taints(node)) == 0
	for _, pod := range b.pods.OnNode(node) {
		if pod.Flags.Has(podcache.Terminating) {
			continue
		}
		if v, leaves := b.verdicts.Over(pod); leaves {
			b.promise(pod).leaving(v, at, unsure || v.Due.Before(b.began))
		} else if p := b.byNode[node][pod.UID]; p != nil {
			p.staying(at, untainted)
		}
	}
}

// look says what there is to say about a promise, and returns when to look again.
func (b *book) look(p *promise, at time.Time) time.Time {
	switch {
	case p.judged:
		return b.until(p, p.leftSeen.Add(remembered), at)
	case !p.left.IsZero():
		return b.judge(p, at)
	case p.leaves:
		return b.await(p, at)
	case p.ended.IsZero(): // marked, and it never had to leave
		return b.until(p, p.marked.Add(remembered), at)
	}
	b.setOverdue(p, false)
	if p.reported {
		b.count(p, Never)
	}
	return b.until(p, p.ended.Add(remembered), at)
}

// count counts a pod, once.
func (b *book) count(p *promise, outcome Outcome) {
	if p.counted {
		return
	}
	p.counted = true
	b.report.count(outcome)
}

// until forgets a promise at an instant.
func (b *book) until(p *promise, end, at time.Time) time.Time {
	if !at.Before(end) {
		b.forget(p)
	}
	return end
}

// await looks at a pod that must leave and is there.
func (b *book) await(p *promise, at time.Time) time.Time {
	b.setOverdue(p, !p.due.After(at))
	missed, never := p.due.Add(MissedAfter), p.due.Add(NeverAfter)
	switch {
	case p.due.After(at):
		return p.due
	case at.Before(missed):
		return missed
	}
	if !p.reported {
		p.reported = true
		b.tell(p, Never, b.whyNever(p, at), at)
	}
	if at.Before(never) {
		return never
	}
	b.count(p, Never)
	return at.Add(remembered)
}

// judge judges an eviction. One that the rule does not explain is judged a little later.
func (b *book) judge(p *promise, at time.Time) time.Time {
	b.justify(p)
	if end := p.leftSeen.Add(judgedAfter); !p.justified() && at.Before(end) {
		return end
	}
	outcome := b.outcome(p)
	if !p.due.IsZero() && p.hadToLeave(p.left) && outcome != Unjudged {
		b.report.observe(p.left.Sub(p.due))
	}
	if p.counted && outcome == Late {
		outcome = Never // which cannot be taken back
	}
	b.count(p, outcome)
	if outcome.differs() {
		b.tell(p, outcome, b.why(p, outcome), at)
	} else {
		b.report.takeBack(p.pod.UID)
	}
	p.judged = true
	b.went(p, at)
	b.setOverdue(p, false)
	if !outcome.differs() {
		b.forget(p)
	}
	return p.leftSeen.Add(remembered)
}

// justify looks again for what explains an eviction that was not: the watch of nodes was behind.
func (b *book) justify(p *promise) {
	if v, leaves := b.verdicts.Over(p.pod); leaves && !v.Due.After(p.left.Add(Tolerance)) && !p.justified() {
		p.leaving(v, p.left, b.unsure(p.pod.Node))
	}
}

// justified reports whether the pod was due when it was evicted.
func (p *promise) justified() bool {
	return p.hadToLeave(p.left) && !p.due.After(p.left.Add(Tolerance))
}

func (b *book) outcome(p *promise) Outcome {
	switch {
	case !p.justified() && (p.unsure || b.verdicts.Listed().After(p.left)):
		return Unjudged // a taint may have come and gone unseen
	case !p.hadToLeave(p.left):
		if f, ok := b.former[p.pod.Key()]; ok && f.uid != p.pod.UID {
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
