// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// NodeRequest asks for a decision about the pods of a node.
type NodeRequest struct{ Name string }

// decider tells the queue which pods must leave.
type decider struct {
	judge   judge
	nodes   nodes
	pods    *podcache.Cache
	queue   *queue
	events  *events
	metrics *metrics
	builtIn BuiltIn // nil if it does not run

	mu      sync.Mutex      // the later of two decisions about a node counts
	leaving map[string]bool // nodes that pods must leave
	held    map[string]map[types.UID]heldPod
	keep    keepFunc // nil if there is no keeper
	rarely  rarely
}

// Reconcile decides about all pods of one node, and requeues it for when the built-in's next timer there fires or
// policies may no longer want to ask about a pod.
func (d *decider) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: d.look(ctx, req.Name)}, nil
}

// look decides about all pods of a node, and returns when to look again if nothing changes; zero means never.
func (d *decider) look(ctx context.Context, name string) (again time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var builtIn time.Time // when its next timer fires
	if d.builtIn != nil {
		builtIn = d.builtIn.Decided(name)
	}
	decided := d.decide(name)
	d.keepAlive(name, decided.held)
	d.tellHeld(name, decided.held)
	d.tell(ctx, name, len(decided.leaving))
	d.spare(ctx, name, d.queue.set(name, decided.leaving))
	next := timeline.Next(builtIn, decided.again)
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(d.judge.clock.Now()), time.Millisecond)
}

// decided is what was decided about the pods that must leave a node, now or later.
type decided struct {
	leaving []backlog.Leaving
	held    []heldPod
	again   time.Time // when policies may no longer want to ask about a pod
}

// decide decides about the pods of a node. It asks policies about the due ones.
func (d *decider) decide(name string) (all decided) {
	var on, due []*podcache.Pod
	var leaving []backlog.Leaving // the due ones
	tainted, ok := d.nodes.get(name)
	if ok {
		on = d.pods.OnNode(name)
	}
	for _, pod := range on {
		v, leaves := d.judge.over(pod, tainted.NoExecute)
		if !leaves {
			continue
		}
		l := backlog.Leaving{
			UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Group: pod.Namespace,
			Due: v.Due, Priority: pod.Priority,
		}
		if v.DueAt(d.judge.clock.Now()) {
			due, leaving = append(due, pod), append(leaving, l)
		} else {
			all.leaving = append(all.leaving, l)
		}
	}
	for i, said := range d.judge.look(name, tainted, due) {
		all.add(due[i], leaving[i], said)
	}
	return all
}

// add adds a due pod, and what policies say about it.
func (all *decided) add(pod *podcache.Pod, l backlog.Leaving, said policy.Said) {
	if said.Stays() {
		l.Answer = backlog.Answer{Held: said.Again.IsZero(), After: said.Again}
		all.held = append(all.held, heldPod{Pod: pod, answer: said.Answer, due: l.Due})
	}
	if said.Step == policy.Ask {
		all.again = timeline.Next(all.again, said.Again)
		l.Lane = backlog.Ask
	}
	all.leaving = append(all.leaving, l)
}

// tell logs once that pods must leave a node. If the taint comes and goes, it logs at most once a minute.
func (d *decider) tell(ctx context.Context, name string, pods int) {
	switch {
	case pods == 0:
		delete(d.leaving, name)
	case !d.leaving[name]:
		d.leaving[name] = true
		if !d.rarely.allows("leave "+name, d.judge.clock.Now()) {
			return
		}
		logf.FromContext(ctx).Info("Pods must leave a tainted node", "node", name, "pods", pods)
	}
}

// spare reports what happened to evictions that are not in flight. A pod that ended in another way, or whose node is
// gone, does not stay.
func (d *decider) spare(ctx context.Context, name string, ended []spared) {
	cancelled := 0
	for _, e := range ended {
		pod, ok := d.pods.There(e.pod)
		result := resultGone
		if ok {
			result = resultCancelled
		}
		if e.begun {
			d.metrics.evictions.WithLabelValues(string(result)).Inc()
		}
		if ok && d.nodes.exists(name) {
			d.events.cancelled(pod, e.due)
			cancelled++
		}
	}
	if cancelled > 0 && d.rarely.allows("stay "+name, d.judge.clock.Now()) {
		logf.FromContext(ctx).Info("Evictions cancelled: the pods no longer need to leave their node", "node", name, "pods", cancelled)
	}
}

// concerns reports whether a change of a pod can change the decision about its node.
func concerns(change podcache.Change) bool {
	const deciding = podcache.Mirror | podcache.Terminating
	before, after := change.Before, change.After
	switch {
	case before == nil:
		return after.Flags&deciding == 0
	case before.Flags.Has(podcache.Terminating) && (after == nil || after.Flags.Has(podcache.Terminating)):
		return false
	case after == nil:
		return true
	}
	return before.Node != after.Node ||
		before.Flags&deciding != after.Flags&deciding ||
		!podcache.SameTolerations(before, after)
}
