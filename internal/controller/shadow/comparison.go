// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/instant"
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
	// markHolds is how long after a mark a delete of a pod that is not due is attributed to the built-in. The built-in
	// deletes right after it marks, or, in a storm, once its queue gets that far. Marks of failed evictions stay on their
	// pods.
	markHolds = 5 * time.Minute
	// crossed is how long after a pod began to terminate the built-in may mark it because it has not seen that yet.
	crossed = time.Second / 2
)

// expected is what is known about the eviction of a pod that must leave its node, had to leave, or was evicted without
// a cause.
type expected struct {
	pod *podcache.Pod // as it was before it was terminating

	leaves    bool            // it must leave
	due       time.Time       // when it must or had to leave
	reason    verdict.Reason  // the newest verdict by which it had to leave
	unsure    bool            // the countdown began at an unknown instant, before this process saw it
	timer     verdict.Verdict // the built-in's, if it was seen to begin
	ended     time.Time       // since when it has no longer had to leave; zero if it must
	untainted bool            // it ended because the node no longer has a NoExecute taint

	marked  time.Time // when the built-in's mark was first seen
	deleted time.Time // when the built-in deleted it
	seen    time.Time // when it was seen that the pod was deleted

	overdue  bool   // it is due and still exists
	ahead    uint64 // how many evictions had been seen when it became due
	reported bool   // as not evicted
	counted  bool   // it is in the counter
	judged   bool   // there is nothing more to report
}

// expect returns the record of a pod, and makes one if there is none.
func (c *Comparison) expect(pod *podcache.Pod) *expected {
	if c.byNode[pod.Node] == nil {
		c.byNode[pod.Node] = map[types.UID]*expected{}
	}
	e := c.byNode[pod.Node][pod.UID]
	if e == nil {
		e = &expected{}
		c.byNode[pod.Node][pod.UID] = e
	}
	if e.deleted.IsZero() {
		e.pod = pod
	}
	return e
}

// forget drops the record of a pod.
func (c *Comparison) forget(e *expected) {
	c.setOverdue(e, false)
	delete(c.byNode[e.pod.Node], e.pod.UID)
	if len(c.byNode[e.pod.Node]) == 0 {
		delete(c.byNode, e.pod.Node)
	}
}

// setOverdue keeps the count of due pods up to date.
func (c *Comparison) setOverdue(e *expected, overdue bool) {
	switch {
	case e.overdue == overdue:
	case overdue:
		c.overdue++
		e.ahead = c.evictions
	default:
		c.overdue--
	}
	e.overdue = overdue
}

// taints returns the NoExecute taints of a node.
func (c *Comparison) taints(node string) []verdict.Taint {
	if known, ok := c.config.Nodes.Get(node); ok {
		return known.NoExecute
	}
	return nil
}

// decide returns the verdict on a pod, and whether it must leave, by the rule of package eviction.
func (c *Comparison) decide(pod *podcache.Pod) (verdict.Verdict, bool) {
	node, tainted := c.config.Nodes.Tainted(pod.Node)
	if !tainted || pod.Flags.Has(podcache.Terminating) {
		return verdict.Verdict{}, false
	}
	v := pod.Verdict(c.config.Rule, node.NoExecute)
	return v, v.Leaves
}

// unsure reports whether the node has a NoExecute taint of which it is unknown how long it has been there: it has no
// timeAdded, and was there when this process started to watch, or came between two lists.
func (c *Comparison) unsure(node string) bool {
	const listing = time.Minute // longer than a list of nodes takes
	listed := c.config.Nodes.Listed()
	for _, taint := range c.taints(node) {
		if !taint.TimeAdded.IsZero() {
			continue
		}
		if !taint.Since.After(c.began) ||
			!taint.Since.Before(listed) && taint.Since.Sub(listed) < listing && listed.After(c.began) {
			return true
		}
	}
	return false
}

// mustLeave notes that the pod must leave according to the newest verdict. Nothing can evict it before that can be
// seen: a taint may arrive with an old timeAdded, and a shorter toleration may already have expired when it is set.
func (e *expected) mustLeave(v verdict.Verdict, now time.Time, unsure bool) {
	switch {
	case v.Due.After(now):
		e.due = v.Due
	case !e.leaves || e.due.After(now):
		e.due = now
	}
	e.leaves, e.reason, e.unsure = true, v.Reason, unsure
	e.ended, e.untainted = time.Time{}, false
}

// hadToLeave reports whether the pod had to leave at an instant, or until just before.
func (e *expected) hadToLeave(at time.Time) bool {
	return e.leaves || !e.ended.IsZero() && at.Sub(e.ended) <= Tolerance
}

// justified reports whether the pod was due when it was evicted.
func (e *expected) justified() bool {
	return e.hadToLeave(e.deleted) && !e.due.After(e.deleted.Add(Tolerance))
}

// observe notes what a change of a pod says about the built-in.
func (c *Comparison) observe(change podcache.Change, seen verdict.Sight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() || change.Before == nil {
		return
	}
	before, newest := change.Before, cmp.Or(change.After, change.Before)
	marked := newest.Flags.Has(podcache.MarkedByBuiltIn) && !before.Flags.Has(podcache.MarkedByBuiltIn)
	switch terminated := before.Flags.Has(podcache.Terminating); {
	case !terminated && (change.After == nil || newest.Flags.Has(podcache.Terminating)):
		c.observeDelete(change, newest, seen)
	case marked && terminated:
		c.observeSecondMark(before, deletedAt(change.Object, seen), seen.At)
	case marked:
		e := c.expect(newest)
		e.marked = cmp.Or(e.marked, seen.At)
	}
}

// observeSecondMark notes that the built-in has marked a pod that was already terminating.
func (c *Comparison) observeSecondMark(pod *podcache.Pod, deleted, now time.Time) {
	if c.byNode[pod.Node][pod.UID] != nil || now.Sub(deleted) <= crossed {
		return
	}
	e := c.expect(pod)
	e.deleted, e.seen, e.judged = now, now, true
	c.count(e, v1alpha1.ShadowTwice)
	c.report(e, v1alpha1.ShadowTwice, "it was already terminating when the built-in controller marked it for deletion", now)
}

// observeDelete notes that a pod was deleted, by the built-in or by another client.
func (c *Comparison) observeDelete(change podcache.Change, newest *podcache.Pod, seen verdict.Sight) {
	pod, marked := change.Before, newest.Flags.Has(podcache.MarkedByBuiltIn)
	deleted, e := deletedAt(change.Object, seen), c.byNode[pod.Node][pod.UID]
	switch {
	case marked && change.Object == nil: // it left while the watch of pods was interrupted, so it is not known when
		e = c.expect(pod)
		c.count(e, v1alpha1.ShadowUnjudged)
		c.takeBack(pod.UID)
		c.forget(e)
	case marked && (!pod.Flags.Has(podcache.MarkedByBuiltIn) || !e.isStale(markedAt(change.Object, seen), deleted)):
		c.evictions++
		e = c.expect(pod)
		if v, leaves := c.decide(pod); leaves && !e.leaves {
			e.mustLeave(v, deleted, c.unsure(pod.Node))
		}
		e.deleted, e.seen = deleted, seen.At
	case e != nil: // another client deleted it
		if e.reported {
			c.count(e, v1alpha1.ShadowNever)
		}
		c.gone(e, seen.At)
		c.forget(e)
	}
}

// deletedAt returns when the API server accepted the delete of a pod: what its object says, or the instant at which it
// was seen to leave.
func deletedAt(pod *corev1.Pod, seen verdict.Sight) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return seen.At
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return seen.Start(pod.DeletionTimestamp.Add(-grace))
}

// markedAt returns when a pod was marked, according to its condition. That is too early if it had the condition for
// another reason before.
func markedAt(pod *corev1.Pod, seen verdict.Sight) time.Time {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.DisruptionTarget {
			return seen.Start(pod.Status.Conditions[i].LastTransitionTime.Time)
		}
	}
	return time.Time{}
}

// isStale reports whether a marked pod was deleted by another client, because it was not due and the mark is too old.
func (e *expected) isStale(marked, deleted time.Time) bool {
	if e != nil && e.marked.After(marked) {
		marked = e.marked
	}
	due := e != nil && e.leaves && !e.due.After(deleted.Add(Tolerance))
	return !due && deleted.Sub(marked) > markHolds
}

// gone notes that a pod that had to leave is gone or leaving. Its successor may have its name.
func (c *Comparison) gone(e *expected, now time.Time) {
	e.seen = cmp.Or(e.seen, now)
	if !e.due.IsZero() {
		c.predecessors[e.pod.Key()] = e
	}
}

// forgetPredecessors drops those that are gone for long.
func (c *Comparison) forgetPredecessors(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.predecessors, func(_ types.NamespacedName, e *expected) bool { return now.Sub(e.seen) > remembered })
}

// examine decides again about all pods of a node and settles what can be settled. It returns how long to wait before
// examining the node again; zero if there is nothing to wait for.
func (c *Comparison) examine(node string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.config.Nodes.Exists(node) { // its pods are left to pod garbage collection
		for _, e := range c.byNode[node] {
			if !e.deleted.IsZero() {
				c.count(e, v1alpha1.ShadowUnjudged)
			}
			c.forget(e)
		}
		return 0
	}
	c.decideAll(node, now)
	var next time.Time
	for _, e := range c.byNode[node] {
		again, over := c.settle(e, now)
		if over {
			c.forget(e)
			continue
		}
		next = instant.Next(next, again)
	}
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(now), time.Millisecond)
}

// decideAll updates what is expected of the pods of a node. What happened to pods that are terminating or gone is
// observed, not decided, because it depends on the client that deleted them.
func (c *Comparison) decideAll(node string, now time.Time) {
	unsure, taints := c.unsure(node), c.taints(node)
	for _, pod := range c.config.Pods.OnNode(node) {
		if pod.Flags.Has(podcache.Terminating) {
			continue
		}
		e, begins := c.byNode[node][pod.UID], false
		if v, leaves := c.decide(pod); leaves {
			e = c.expect(pod)
			unsure := unsure || v.Due.Before(c.began)
			begins = !e.leaves && !unsure
			e.mustLeave(v, now, unsure)
		} else if e != nil && e.leaves {
			e.leaves, e.ended, e.untainted = false, now, len(taints) == 0
		}
		if begins || e != nil && e.timer.PendingAt(now) {
			e.timer = c.timers.Look(e.timer, pod.Rule(), taints, now)
		}
	}
}

// settle reports what is due about a pod, and returns when to settle again, or that the comparison of the pod is over.
func (c *Comparison) settle(e *expected, now time.Time) (again time.Time, over bool) {
	switch {
	case e.judged:
		again = e.seen.Add(remembered)
	case !e.deleted.IsZero():
		return c.judge(e, now)
	case e.leaves:
		return c.await(e, now), false
	case e.ended.IsZero(): // marked, and it never had to leave
		again = e.marked.Add(remembered)
	default:
		c.setOverdue(e, false)
		if e.reported {
			c.count(e, v1alpha1.ShadowNever)
		}
		again = e.ended.Add(remembered)
	}
	return again, !now.Before(again)
}

// await reports a pod that exists and should not. It returns when to settle again.
func (c *Comparison) await(e *expected, now time.Time) time.Time {
	c.setOverdue(e, !e.due.After(now))
	missed, never := e.due.Add(MissedAfter), e.due.Add(NeverAfter)
	switch {
	case e.due.After(now):
		return e.due
	case now.Before(missed):
		return missed
	}
	if !e.reported {
		e.reported = true
		c.report(e, v1alpha1.ShadowNever, c.why(e, v1alpha1.ShadowNever, now), now)
	}
	if now.Before(never) {
		return never
	}
	c.count(e, v1alpha1.ShadowNever)
	return now.Add(remembered)
}

// judge judges an eviction. If the rule does not explain it, it is judged a little later.
func (c *Comparison) judge(e *expected, now time.Time) (again time.Time, over bool) {
	v, leaves := c.decide(e.pod)
	if !e.justified() && leaves && !v.Due.After(e.deleted.Add(Tolerance)) { // the watch of nodes was behind
		e.mustLeave(v, e.deleted, c.unsure(e.pod.Node))
	}
	if end := e.seen.Add(judgedAfter); !e.justified() && now.Before(end) {
		return end, false
	}
	outcome := c.outcome(e)
	if !e.due.IsZero() && e.hadToLeave(e.deleted) && outcome != v1alpha1.ShadowUnjudged {
		c.lateness.Observe(e.deleted.Sub(e.due).Seconds())
	}
	if e.counted && outcome == v1alpha1.ShadowLate {
		outcome = v1alpha1.ShadowNever // a counter cannot go back
	}
	c.count(e, outcome)
	differs := outcome.EventReason() != ""
	if differs {
		c.report(e, outcome, c.why(e, outcome, now), now)
	} else {
		c.takeBack(e.pod.UID)
	}
	e.judged = true
	c.setOverdue(e, false)
	c.gone(e, now)
	return e.seen.Add(remembered), !differs
}

func (c *Comparison) outcome(e *expected) v1alpha1.ShadowOutcome {
	switch {
	case !e.justified() && (e.unsure || c.config.Nodes.Listed().After(e.deleted)):
		return v1alpha1.ShadowUnjudged // a taint may have come and gone unseen
	case !e.hadToLeave(e.deleted):
		if p := c.predecessors[e.pod.Key()]; p != nil && p.pod.UID != e.pod.UID {
			return v1alpha1.ShadowTwice
		}
		return v1alpha1.ShadowStayed
	case !e.justified():
		return v1alpha1.ShadowEarly
	case e.deleted.Sub(e.due) > Tolerance:
		return v1alpha1.ShadowLate
	}
	return v1alpha1.ShadowOnTime
}
