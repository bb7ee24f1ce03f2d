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
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
)

// NodeRequest asks for a decision about the pods of a node.
type NodeRequest struct{ Name string }

// decider says to the queue which pods must leave.
type decider struct {
	judge   judge
	nodes   nodes
	pods    *podcache.Cache
	queue   *queue
	events  *events
	metrics *metrics
	witness *witness

	mu      sync.Mutex      // of two decisions about a node the later one counts
	leaving map[string]bool // nodes that pods must leave
	held    map[string]map[types.UID]heldPod
	rarely  rarely
}

// Reconcile decides about all pods of one node, and comes back when the built-in's next timer there fires.
func (d *decider) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: d.look(ctx, req.Name)}, nil
}

// look decides about all pods of a node, and returns when to look again if nothing changes; zero means never.
func (d *decider) look(ctx context.Context, name string) (again time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fires := d.witness.look(name)
	leaving, held := d.decide(name)
	d.tellHeld(name, held)
	d.tell(ctx, name, len(leaving))
	d.spare(ctx, name, d.queue.set(name, leaving))
	if fires.IsZero() {
		return 0
	}
	return max(fires.Sub(d.judge.clock.Now()), time.Millisecond)
}

// decide returns the pods that must leave a node, now or later, and which of them policies hold.
func (d *decider) decide(name string) (all []backlog.Leaving, held []heldPod) {
	tainted, ok := d.nodes.get(name)
	if !ok {
		return nil, nil
	}
	for _, pod := range d.pods.OnNode(name) {
		v, leaves := d.judge.over(pod, tainted.NoExecute)
		if !leaves {
			continue
		}
		l := backlog.Leaving{
			UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Group: pod.Namespace,
			Due: v.Due, Priority: pod.Priority,
		}
		if v.DueAt(d.judge.clock.Now()) { // before, policies are not asked
			answer, again := d.judge.says(pod, tainted, tainted.NoExecute)
			if answer.Stays() {
				l.Answer = backlog.Answer{Held: again.IsZero(), After: again}
				held = append(held, heldPod{Pod: pod, answer: answer})
			}
		}
		all = append(all, l)
	}
	return all, held
}

// tell says that pods must leave a node, once, and for one whose taint comes and goes at most once a minute.
func (d *decider) tell(ctx context.Context, name string, pods int) {
	switch {
	case pods == 0:
		delete(d.leaving, name)
	case !d.leaving[name]:
		d.leaving[name] = true
		if !d.rarely.worthALine("leave "+name, d.judge.clock.Now()) {
			return
		}
		logf.FromContext(ctx).Info("Pods must leave a tainted node", "node", name, "pods", pods)
	}
}

// spare says what became of evictions that are not in flight. A pod that went another way, or whose node is gone, does
// not stay.
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
			d.events.cancelled(pod)
			cancelled++
		}
	}
	if cancelled > 0 && d.rarely.worthALine("stay "+name, d.judge.clock.Now()) {
		logf.FromContext(ctx).Info("Evictions cancelled: the pods are tolerated on their node now", "node", name, "pods", cancelled)
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
