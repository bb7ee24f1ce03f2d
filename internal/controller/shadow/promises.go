// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// verdicts say which pods must leave; they are an eviction.Verdicts.
type verdicts interface {
	Over(pod *podcache.Pod) (verdict.Verdict, bool)
	Taints(node string) []verdict.Taint
	Exists(node string) bool
	Listed() time.Time
}

// promises has the promises about pods. It is safe for concurrent use. Its size follows what is tainted: a promise is
// forgotten when its pod left as promised, or [remembered] after it ended in another way.
type promises struct {
	clock    *timeline.Clock
	verdicts verdicts
	pods     *podcache.Cache
	report   *report
	teller   *teller

	mu     sync.Mutex
	began  time.Time // since when everything has been seen; earlier evictions are not judged
	byNode map[string]map[types.UID]*promise
	// former is what happened to the pods that had to leave and are gone, by name, because the built-in deletes by name.
	former    map[types.NamespacedName]former
	swept     time.Time
	overdue   int    // promises of pods that are due and still exist
	evictions uint64 // all evictions by the built-in that were seen
}

// former is a pod that had to leave and is gone.
type former struct {
	uid  types.UID
	node string
	due  time.Time
	gone time.Time
}

func newPromises(
	clock *timeline.Clock, verdicts verdicts, pods *podcache.Cache, report *report, teller *teller,
) *promises {
	return &promises{
		clock:    clock,
		verdicts: verdicts,
		pods:     pods,
		report:   report,
		teller:   teller,
		byNode:   map[string]map[types.UID]*promise{},
		former:   map[types.NamespacedName]former{},
	}
}

// begin notes that from now on everything is seen.
func (ps *promises) begin(at time.Time) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.began = at
}

// knows reports whether there is a promise about a pod of the node.
func (ps *promises) knows(node string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.byNode[node]) > 0
}

// backlog returns how many existing pods are due, and how many must leave later.
func (ps *promises) backlog(at time.Time) (overdue, pending int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, promises := range ps.byNode {
		for _, p := range promises {
			if p.leaves && p.left.IsZero() && p.due.After(at) {
				pending++
			}
		}
	}
	return ps.overdue, pending
}

// fill fills in the report.
func (ps *promises) fill(to *Report, at time.Time) {
	ps.report.fill(to)
	to.Overdue, to.Pending = ps.backlog(at)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !ps.began.IsZero() {
		to.Since = &metav1.Time{Time: ps.clock.Shown(ps.began)}
	}
}

// promise returns the promise about a pod, and makes one if there is none. The caller holds the lock.
func (ps *promises) promise(pod *podcache.Pod) *promise {
	promises := ps.byNode[pod.Node]
	if promises == nil {
		promises = map[types.UID]*promise{}
		ps.byNode[pod.Node] = promises
	}
	p := promises[pod.UID]
	if p == nil {
		p = &promise{}
		promises[pod.UID] = p
	}
	if p.left.IsZero() {
		p.pod = pod
	}
	return p
}

// forget drops a promise. The caller holds the lock.
func (ps *promises) forget(p *promise) {
	ps.setOverdue(p, false)
	promises := ps.byNode[p.pod.Node]
	delete(promises, p.pod.UID)
	if len(promises) == 0 {
		delete(ps.byNode, p.pod.Node)
	}
}

// went notes that a pod that had to leave is gone or leaving. Its successor may have its name.
func (ps *promises) went(p *promise, at time.Time) {
	if p.due.IsZero() {
		return
	}
	ps.former[p.pod.Key()] = former{uid: p.pod.UID, node: p.pod.Node, due: p.due, gone: at}
}

// setOverdue keeps the count of due pods up to date. The caller holds the lock.
func (ps *promises) setOverdue(p *promise, overdue bool) {
	if p.overdue == overdue {
		return
	}
	p.overdue = overdue
	if overdue {
		ps.overdue++
		p.ahead = ps.evictions
		return
	}
	ps.overdue--
}

// sweep forgets pods that left long ago. The caller holds the lock.
func (ps *promises) sweep(at time.Time) {
	if at.Sub(ps.swept) < time.Minute {
		return
	}
	ps.swept = at
	maps.DeleteFunc(ps.former, func(_ types.NamespacedName, f former) bool { return at.Sub(f.gone) > remembered })
}

// unsure reports whether the node has a NoExecute taint of which it is unknown how long it has been there: it has no
// timeAdded, and was there when this process started to watch, or came between two lists.
func (ps *promises) unsure(node string) bool {
	const listing = time.Minute // longer than a list of nodes takes
	listed := ps.verdicts.Listed()
	for _, taint := range ps.verdicts.Taints(node) {
		if !taint.TimeAdded.IsZero() {
			continue
		}
		if !taint.Since.After(ps.began) ||
			!taint.Since.Before(listed) && taint.Since.Sub(listed) < listing && listed.After(ps.began) {
			return true
		}
	}
	return false
}
