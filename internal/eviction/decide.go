// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/podcache"
)

// NodeRequest asks for a decision about the pods of a node.
type NodeRequest struct{ Name string }

// longestNap is the longest time for which a node with pods that have to leave is not looked at.
// Timers follow the monotonic clock; looking again now and then notices a wall clock that was set.
const longestNap = time.Minute

// decider is the first stage.
type decider struct {
	judge     judge
	nodes     *nodes
	pods      *podcache.Cache
	decisions *decisions
	events    *events
	execute   *handover
	witness   *witness
}

// Reconcile decides about all pods of one node, hands over those that are due and comes back
// when the next one is.
func (d *decider) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	at := now()
	next := d.decide(req.Name)
	fires := d.witness.look(req.Name)
	previous := d.decisions.put(req.Name, next)
	d.withdraw(ctx, req.Name, at, previous, next)
	nap := next.nap(at)
	if !fires.IsZero() && nap > 0 {
		nap = min(nap, max(fires.Sub(at), time.Millisecond))
	}
	if len(previous) == 0 && len(next) > 0 {
		logf.FromContext(ctx).Info("Pods have to leave a tainted node",
			"node", req.Name, "pods", len(next), "nextLook", nap.String())
	}
	d.execute.add(req.Name, next.dueAt(at))
	return reconcile.Result{RequeueAfter: nap}, nil
}

// leaving is a pod that has to leave its node, now or later.
type leaving struct {
	pod *podcache.Pod
	due time.Time
}

func (l leaving) request() PodRequest {
	return PodRequest{Namespace: l.pod.Namespace, Name: l.pod.Name, UID: l.pod.UID}
}

// decision holds the pods of one node that have to leave it, by UID.
type decision map[types.UID]leaving

// nap is how long nothing has to be done about the node: until the next due instant. It is zero
// when no pod has to leave.
func (d decision) nap(at time.Time) time.Duration {
	if len(d) == 0 {
		return 0
	}
	nap := longestNap
	for _, leaving := range d {
		if leaving.due.After(at) {
			nap = min(nap, leaving.due.Sub(at))
		}
	}
	return nap
}

// dueAt returns the pods that are due at an instant, earliest due first, then lowest pod priority.
func (d decision) dueAt(at time.Time) []leaving {
	var due []leaving
	for _, leaving := range d {
		if !leaving.due.After(at) {
			due = append(due, leaving)
		}
	}
	slices.SortFunc(due, func(a, b leaving) int {
		return cmp.Or(cmp.Compare(a.due.Unix(), b.due.Unix()), cmp.Compare(a.pod.Priority, b.pod.Priority),
			cmp.Compare(a.pod.UID, b.pod.UID))
	})
	return due
}

func (d *decider) decide(name string) decision {
	tainted, ok := d.nodes.get(name)
	if !ok {
		return nil
	}
	next := decision{}
	for _, pod := range d.pods.OnNode(name) {
		if v, ok := d.judge.over(pod, tainted); ok {
			next[pod.UID] = leaving{pod: pod, due: v.Due}
		}
	}
	return next
}

// withdraw ends the evictions of pods that were due and are not due any more, and says of each pod that had to leave
// and now stays that it does. A pod that went another way, or whose node is gone, does not stay.
func (d *decider) withdraw(ctx context.Context, name string, at time.Time, previous, next decision) {
	cancelled := 0
	for uid, was := range previous {
		is, leaves := next[uid]
		if leaves && (!is.due.After(at) || was.due.After(at)) {
			continue
		}
		if !d.there(uid) || !d.nodes.exists(name) {
			continue
		}
		// Of a pod whose eviction is being carried out the second stage says it, as only that knows what became of it.
		// One that ended just now may have deleted the pod.
		if inFlight := d.execute.withdraw(was.request()); !inFlight && !leaves && d.there(uid) {
			d.events.cancelled(was.pod)
			cancelled++
		}
	}
	if cancelled > 0 {
		logf.FromContext(ctx).Info("Evictions cancelled: the pods are tolerated on their node now", "node", name, "pods", cancelled)
	}
}

// there reports whether a pod is there and does not terminate.
func (d *decider) there(uid types.UID) bool {
	pod, ok := d.pods.Get(uid)
	return ok && !pod.Flags.Has(podcache.Terminating)
}

// concerns reports whether a change of a pod can change the decision about its node.
func concerns(change podcache.Change) bool {
	const deciding = podcache.Mirror | podcache.Terminating
	before, after := change.Before, change.After
	switch {
	case before == nil:
		return after.Flags&deciding == 0
	case before.Flags.Has(podcache.Terminating):
		return false
	case after == nil:
		return true
	}
	return before.Node != after.Node ||
		before.Flags&deciding != after.Flags&deciding ||
		!before.Bound().Equal(after.Bound()) ||
		!podcache.SameTolerations(before, after)
}

// decisions holds the newest decision about each tainted node. It is written by the decider, who
// alone compares it with the next, and read when metrics are scraped.
type decisions struct {
	mu     sync.Mutex
	byNode map[string]decision
}

// put stores a decision and returns the one before.
func (d *decisions) put(node string, next decision) decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	previous := d.byNode[node]
	if len(next) == 0 {
		delete(d.byNode, node)
	} else {
		d.byNode[node] = next
	}
	return previous
}

// backlog counts the evictions that are ahead at an instant.
type backlog struct {
	pending int       // due in the future
	next    time.Time // the earliest of them
	due     int       // due, and not done yet
	oldest  time.Time // the earliest of those
}

func (d *decisions) at(at time.Time) backlog {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b backlog
	for _, decision := range d.byNode {
		for _, leaving := range decision {
			b.count(leaving.due, at)
		}
	}
	return b
}

// dueBefore returns the pods that were due at an instant, of all nodes.
func (d *decisions) dueBefore(at time.Time) []leaving {
	d.mu.Lock()
	defer d.mu.Unlock()
	var due []leaving
	for _, decision := range d.byNode {
		due = append(due, decision.dueAt(at)...)
	}
	return due
}

// overdue is for how long the first of the pods that are due has been due at an instant; zero if none is.
func (b *backlog) overdue(at time.Time) time.Duration {
	if b.due == 0 {
		return 0
	}
	return at.Sub(b.oldest)
}

func (b *backlog) count(due, at time.Time) {
	if !due.After(at) {
		b.due++
		b.oldest = earliest(b.oldest, due)
		return
	}
	b.pending++
	b.next = earliest(b.next, due)
}

// earliest returns the earlier of two instants; the zero one is none.
func earliest(known, another time.Time) time.Time {
	switch {
	case known.IsZero():
		return another
	case another.IsZero():
		return known
	}
	return earlier(known, another)
}
