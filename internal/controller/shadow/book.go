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

// book has the promises. It is safe for concurrent use. What it holds follows what is tainted: a promise is forgotten
// when its pod went as promised, and [remembered] after it ended otherwise.
type book struct {
	clock    *timeline.Clock
	verdicts verdicts
	pods     *podcache.Cache
	report   *report
	teller   *teller

	mu     sync.Mutex
	began  time.Time // when everything was seen; what happened before is not judged
	byNode map[string]map[types.UID]*promise
	// former is what happened to the pods that had to leave and have gone, by name: the built-in deletes by name.
	former    map[types.NamespacedName]former
	swept     time.Time
	overdue   int    // promises of pods that are due, and there
	evictions uint64 // by the built-in, all that were seen
}

// former is a pod that had to leave and has gone.
type former struct {
	uid  types.UID
	node string
	due  time.Time
	gone time.Time
}

func newBook(clock *timeline.Clock, verdicts verdicts, pods *podcache.Cache, report *report, teller *teller) *book {
	return &book{
		clock:    clock,
		verdicts: verdicts,
		pods:     pods,
		report:   report,
		teller:   teller,
		byNode:   map[string]map[types.UID]*promise{},
		former:   map[types.NamespacedName]former{},
	}
}

// begin says that from now on everything is seen.
func (b *book) begin(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.began = at
}

// knows reports whether there is a promise about a pod of the node.
func (b *book) knows(node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.byNode[node]) > 0
}

// backlog returns how many pods are due and there, and how many must leave later.
func (b *book) backlog(at time.Time) (overdue, pending int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, promises := range b.byNode {
		for _, p := range promises {
			if p.leaves && p.left.IsZero() && p.due.After(at) {
				pending++
			}
		}
	}
	return b.overdue, pending
}

// fill fills in what there is to report.
func (b *book) fill(to *Report, at time.Time) {
	b.report.fill(to)
	to.Overdue, to.Pending = b.backlog(at)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.began.IsZero() {
		to.Since = &metav1.Time{Time: b.clock.Shown(b.began)}
	}
}

// promise returns the promise about a pod, and makes it if there is none. The caller holds the lock.
func (b *book) promise(pod *podcache.Pod) *promise {
	promises := b.byNode[pod.Node]
	if promises == nil {
		promises = map[types.UID]*promise{}
		b.byNode[pod.Node] = promises
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
func (b *book) forget(p *promise) {
	b.setOverdue(p, false)
	promises := b.byNode[p.pod.Node]
	delete(promises, p.pod.UID)
	if len(promises) == 0 {
		delete(b.byNode, p.pod.Node)
	}
}

// went notes that a pod that had to leave is gone or goes: its successor may have its name.
func (b *book) went(p *promise, at time.Time) {
	if p.due.IsZero() {
		return
	}
	b.former[p.pod.Key()] = former{uid: p.pod.UID, node: p.pod.Node, due: p.due, gone: at}
}

// setOverdue keeps the number of those that are due. The caller holds the lock.
func (b *book) setOverdue(p *promise, overdue bool) {
	if p.overdue == overdue {
		return
	}
	p.overdue = overdue
	if overdue {
		b.overdue++
		p.ahead = b.evictions
		return
	}
	b.overdue--
}

// sweep forgets the pods that went long ago. The caller holds the lock.
func (b *book) sweep(at time.Time) {
	if at.Sub(b.swept) < time.Minute {
		return
	}
	b.swept = at
	maps.DeleteFunc(b.former, func(_ types.NamespacedName, f former) bool { return at.Sub(f.gone) > remembered })
}

// unsure reports whether the node has a NoExecute taint of which nobody can say since when it is there: it has no
// timeAdded, and was there already when this process began to see, or came between two lists.
func (b *book) unsure(node string) bool {
	const listing = time.Minute // longer than a list of nodes takes
	listed := b.verdicts.Listed()
	for _, taint := range b.verdicts.Taints(node) {
		if !taint.TimeAdded.IsZero() {
			continue
		}
		if !taint.Since.After(b.began) ||
			!taint.Since.Before(listed) && taint.Since.Sub(listed) < listing && listed.After(b.began) {
			return true
		}
	}
	return false
}
