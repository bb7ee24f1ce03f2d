// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// BuiltIn follows what the built-in controller is about to do, and records it in the cluster; see coexist.Account. It
// is called concurrently.
type BuiltIn interface {
	// Decided is called before a decision about a node takes effect. It returns at once, with the instant at which the
	// node must be decided about again because a timer of the built-in fires; zero if there is none.
	Decided(node string) time.Time
	// Recorded returns once what the built-in does is recorded in the cluster, including what it does because pods of a
	// node have been due since an instant. None of these may be evicted before then: if this process is killed, only the
	// record keeps the built-in from deleting pods that took the names of evicted ones. If it returns an error, the
	// built-in is left to evict.
	Recorded(ctx context.Context, node string, since time.Time) error
}

// Policies may object to evictions. They must answer at once, and are asked concurrently.
type Policies interface {
	// DoneChecker reports when the policies are known. No pod is evicted before then.
	cache.DoneChecker
	// Known reports whether all policies are known now. While they are not, they hold every pod.
	Known() bool
	// Look returns what they say about the due pods of a node. If only some pods may leave at a time, these pods wait in
	// line until the next look, and no other pods of the node do. A node must therefore be looked at again when its pods
	// or taints change.
	Look(name string, node *nodecache.Node, due []*podcache.Pod) []policy.Said
	// Says returns what they say about a pod that is due because of some of these taints of its node.
	Says(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) policy.Said
	// Begin takes the places of a pod when its eviction begins, with a delete or a request to the Eviction API. It
	// reports false if the pod may not leave that way now. End is called when an eviction that began has ended; it is
	// told whether the pod is known to stay.
	Begin(pod *podcache.Pod, node *nodecache.Node, asks bool) bool
	End(node string, pod types.UID, stays bool)
	// Subscribe calls a function with the name of each node that must be looked at again, because the answers about its
	// pods may have changed.
	Subscribe(changed func(node string))
}

// Mode says what an Evictor does with a due pod.
type Mode int

const (
	// Evict deletes it.
	Evict Mode = iota
	// DryRun logs and counts what would happen. It changes nothing in the cluster except for writing events, which are
	// marked as a dry run.
	DryRun
)

// judge decides, from the caches, which pods must leave, and when, on the timeline of its clock, and whether policies
// object to that. All parts of an Evictor have the same.
type judge struct {
	nodes    *nodecache.Cache
	pods     *podcache.Cache
	rule     verdict.Rule
	clock    *timeline.Clock
	policies Policies // nil if there are none
}

// there reports whether a pod is there and not terminating, as far as is known.
func (j judge) there(pod types.UID) bool {
	_, ok := j.pods.There(pod)
	return ok
}

// over returns the verdict on a pod on a node with the given taints, if it must leave. Terminating pods are leaving
// already.
func (j judge) over(pod *podcache.Pod, tainted []verdict.Taint) (verdict.Verdict, bool) {
	if pod.Flags.Has(podcache.Terminating) {
		return verdict.Verdict{}, false
	}
	v := pod.Verdict(j.rule, tainted)
	return v, v.Leaves
}

// due reports whether a pod on a node with the given taints must leave now.
func (j judge) due(pod *podcache.Pod, tainted []verdict.Taint) bool {
	v, _ := j.over(pod, tainted)
	return v.DueAt(j.clock.Now())
}

// answers returns what the policies say about the due pods of a node.
func (j judge) answers(name string, node *nodecache.Node, due []*podcache.Pod) []policy.Said {
	if j.policies == nil {
		return make([]policy.Said, len(due))
	}
	return j.policies.Look(name, node, due)
}

// says returns what the policies say about a pod that is due because of some of these taints of its node.
func (j judge) says(pod *podcache.Pod, node *nodecache.Node, tainted []verdict.Taint) policy.Said {
	if j.policies == nil {
		return policy.Said{}
	}
	return j.policies.Says(pod, node, tainted)
}

// held reports whether a pod is due on its node, according to the caches, and whether a policy holds it, and why.
func (j judge) held(pod *podcache.Pod) (due, held bool, _ policy.Answer) {
	node, ok := j.nodes.Tainted(pod.Node)
	if !ok || !j.due(pod, node.NoExecute) {
		return false, false, policy.Answer{}
	}
	said := j.says(pod, node, node.NoExecute)
	return true, said.Stays(), said.Answer
}

// NodeRequest asks for a decision about the pods of a node.
type NodeRequest struct{ Name string }

// decider tells the queue which pods must leave.
type decider struct {
	judge

	queue   *queue
	events  *events
	metrics *metrics
	builtIn BuiltIn // nil if it does not run

	mu      sync.Mutex      // the later of two decisions about a node counts
	leaving map[string]bool // nodes that pods must leave
	held    map[string]map[types.UID]heldPod
	keep    keepFunc // nil if there is no keepAlive
	request func(node string, after time.Duration)
	rarely  rarely
}

// Reconcile decides about all pods of one node.
func (d *decider) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	d.decideNode(ctx, req.Name)
	return reconcile.Result{}, nil
}

// requestFrom has nodes requested from a queue.
func (d *decider) requestFrom(queue workqueue.TypedRateLimitingInterface[NodeRequest]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.request = func(node string, after time.Duration) { queue.AddAfter(NodeRequest{node}, after) }
}

// decideNode decides about all pods of a node. It requests the node again for when the built-in's next timer there
// fires or policies may say something else about a pod.
func (d *decider) decideNode(ctx context.Context, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var builtIn time.Time // when its next timer fires
	if d.builtIn != nil {
		builtIn = d.builtIn.Decided(name)
	}
	decided := d.decide(name)
	d.keepAlive(name, decided.held)
	d.reportHeld(name, decided.held)
	d.logLeaving(ctx, name, len(decided.leaving))
	d.reportEnded(ctx, name, d.queue.set(name, decided.leaving))
	if next := instant.Next(builtIn, decided.again); !next.IsZero() {
		d.request(name, max(next.Sub(d.clock.Now()), time.Millisecond))
	}
}

// decided is what was decided about the pods that must leave a node, now or later.
type decided struct {
	leaving []backlog.Leaving
	held    []heldPod
	again   time.Time // when policies may say something else about a pod
}

// decide decides about the pods of a node. It asks policies about the due ones.
func (d *decider) decide(name string) (all decided) {
	var on, due []*podcache.Pod
	var leaving []backlog.Leaving // the due ones
	tainted, ok := d.nodes.Tainted(name)
	if ok {
		on = d.pods.OnNode(name)
	}
	for _, pod := range on {
		v, leaves := d.over(pod, tainted.NoExecute)
		if !leaves {
			continue
		}
		l := backlog.Leaving{
			UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Group: pod.Namespace,
			Due: v.Due, Priority: pod.Priority,
		}
		if v.DueAt(d.clock.Now()) {
			due, leaving = append(due, pod), append(leaving, l)
		} else {
			all.leaving = append(all.leaving, l)
		}
	}
	for i, said := range d.answers(name, tainted, due) {
		all.addDue(due[i], leaving[i], said)
	}
	return all
}

// addDue adds a due pod, and what policies say about it.
func (all *decided) addDue(pod *podcache.Pod, l backlog.Leaving, said policy.Said) {
	if said.Stays() {
		l.Answer = backlog.Answer{Held: said.Again.IsZero(), After: said.Again}
		all.held = append(all.held, heldPod{Pod: pod, answer: said.Answer, due: l.Due})
	}
	all.again = instant.Next(all.again, said.Again)
	if said.Step == policy.Ask {
		l.Lane = backlog.Ask
	}
	all.leaving = append(all.leaving, l)
}

// heldPod is a due pod that a policy holds.
type heldPod struct {
	*podcache.Pod

	answer policy.Answer
	due    time.Time
	said   []policy.Why // the reasons that events have already reported
}

// reportHeld reports for each held pod why it is held, once for each reason. That a pod must be read first passes in a
// moment, so there is no event for it.
func (d *decider) reportHeld(node string, held []heldPod) {
	now := make(map[types.UID]heldPod, len(held))
	for _, pod := range held {
		pod.said = d.held[node][pod.UID].said
		if pod.answer.Why != policy.PodUnread && !slices.Contains(pod.said, pod.answer.Why) {
			pod.said = append(pod.said, pod.answer.Why)
			d.events.held(pod.Pod, d.verdict(pod.Pod), pod.answer)
		}
		now[pod.UID] = pod
	}
	if d.held[node] = now; len(now) == 0 {
		delete(d.held, node)
	}
}

// verdict decides about a pod from the cache. It is empty if the pod's node is gone.
func (d *decider) verdict(pod *podcache.Pod) (v verdict.Verdict) {
	if node, ok := d.nodes.Tainted(pod.Node); ok {
		v, _ = d.over(pod, node.NoExecute)
	}
	return v
}

// objection is the policy that objects to evictions, and its reason.
type objection struct {
	policy string
	why    policy.Why
}

// objections counts the held pods by objection.
func (d *decider) objections() map[objection]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := map[objection]int{}
	for _, pods := range d.held {
		for _, pod := range pods {
			counts[objection{pod.answer.Policy, pod.answer.Why}]++
		}
	}
	return counts
}

// logLeaving logs once that pods must leave a node. If the taint comes and goes, it logs at most once a minute.
func (d *decider) logLeaving(ctx context.Context, name string, pods int) {
	switch {
	case pods == 0:
		delete(d.leaving, name)
	case !d.leaving[name]:
		d.leaving[name] = true
		if !d.rarely.allows("leave "+name, d.clock.Now()) {
			return
		}
		logf.FromContext(ctx).Info("Pods must leave a tainted node", "node", name, "pods", pods)
	}
}

// reportEnded reports what happened to evictions that are not in flight. A pod that ended in another way, or whose node
// is gone, does not stay.
func (d *decider) reportEnded(ctx context.Context, name string, ended []spared) {
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
		if ok && d.nodes.Exists(name) {
			d.events.cancelled(pod, e.due)
			cancelled++
		}
	}
	if cancelled > 0 && d.rarely.allows("stay "+name, d.clock.Now()) {
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
