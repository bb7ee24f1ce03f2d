// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// Request asks for a plan of the rules that something has changed for.
type Request struct{}

// concurrentNodes is how many nodes are changed at the same time.
const concurrentNodes = 8

// reconciler plans the rules and writes what the plan says. It is the only one that writes rules' taints and labels,
// and it plans only between its writes, so that no plan has to reckon with writes under way.
type reconciler struct {
	dryRun   bool
	clock    *timeline.Clock
	watch    *ruleWatch
	book     *book
	api      api
	events   *events
	metrics  *metrics
	requests *requests
	backoffs *apicall.Backoffs[string] // of nodes, doubts and rules
	notes    map[types.UID]*note
}

// note is what this process has done and said about a rule.
type note struct {
	confirmed bool                         // it is known which nodes have its taint
	holding   string                       // the reason that was said of its condition Holding; empty: nothing yet
	would     v1alpha1.NodeTaintRuleStatus // that was said in a dry run
	written   *v1alpha1.NodeTaintRule      // the newest answer to a write of it
}

// Reconcile plans, makes the nodes what the plan wants, and says what has come of it.
func (r *reconciler) Reconcile(ctx context.Context, _ Request) (reconcile.Result, error) {
	if !r.watch.listed() {
		return reconcile.Result{}, nil // once all are known there is another request
	}
	failed := []error{r.endDoubts(ctx)}
	r.book.plan(r.clock.Now())
	for _, p := range r.book.pages() {
		failed = append(failed, r.prepare(ctx, p))
	}
	wrote, err := r.writeNodes(ctx)
	failed = append(failed, err)
	next := r.book.plan(r.clock.Now())
	there := map[types.UID]bool{}
	for _, p := range r.book.pages() {
		there[p.object.UID] = true
		failed = append(failed, r.report(ctx, p))
	}
	maps.DeleteFunc(r.notes, func(uid types.UID, _ *note) bool { return !there[uid] })
	if apicall.Stopping(ctx) { // the next process goes on
		return reconcile.Result{}, nil
	}
	r.again(next, wrote)
	return reconcile.Result{}, errors.Join(failed...)
}

// again asks for the next plan, in time for whatever comes first. Nodes that were written make way for others.
func (r *reconciler) again(next time.Time, wrote bool) {
	now := r.clock.Now()
	_, doubt := r.book.overdue(now)
	next = timeline.Next(timeline.Next(next, doubt), r.backoffs.Next(now))
	if wrote && len(r.book.pending()) > 0 {
		next = now
	}
	if !next.IsZero() {
		r.requests.add(max(next.Sub(now), time.Nanosecond))
	}
}

// prepare makes sure, before a node is tainted, that it is known which nodes have the taint already, and that the rule
// stays until its taints are off. Until that is done, the rule taints no node.
func (r *reconciler) prepare(ctx context.Context, p page) error {
	if p.rule.asIf || p.rule.frozen || p.clean || !p.object.DeletionTimestamp.IsZero() {
		return nil
	}
	ready := false
	err := r.try("rule "+p.rule.name, func() error {
		if err := r.confirm(ctx, p); err != nil {
			return err
		}
		ready = true
		object := r.newest(p)
		if slices.Contains(object.Finalizers, v1alpha1.Finalizer) {
			return nil
		}
		err := r.writeFinalizers(ctx, object, append(slices.Clone(object.Finalizers), v1alpha1.Finalizer))
		ready = err == nil
		return err
	})
	if !ready {
		r.book.stop(p.object.UID)
	}
	return err
}

// confirm asks the API server, once for each rule, which nodes have the taint. This process may have become the leader
// just now, and its watch be behind what the one before wrote.
func (r *reconciler) confirm(ctx context.Context, p page) error {
	if r.note(p).confirmed {
		return nil
	}
	nodes, err := r.api.labelled(ctx, p.rule.label)
	if err != nil {
		return fmt.Errorf("list the nodes with the taint of rule %s: %w", p.rule.name, err)
	}
	for i := range nodes {
		r.book.learned(&nodes[i], r.clock.See())
	}
	r.note(p).confirmed = true
	r.book.plan(r.clock.Now())
	return nil
}

// writeNodes makes the nodes what the newest plan wants, and reports whether it has changed one.
func (r *reconciler) writeNodes(ctx context.Context) (bool, error) {
	var (
		group  errgroup.Group
		mu     sync.Mutex
		wrote  bool
		failed []error
	)
	group.SetLimit(concurrentNodes)
	for _, name := range r.book.pending() {
		group.Go(func() error {
			changed := false
			err := r.try(name, func() (err error) {
				changed, err = r.writeNode(ctx, name, "")
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			wrote, failed = wrote || changed, append(failed, err)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed: one does not stop the others
	return wrote, errors.Join(failed...)
}

// writeNode makes a node what the rules want, or only one of them, and reports whether it has changed the node. If the
// API server does not take the taints of several, each is tried alone.
func (r *reconciler) writeNode(ctx context.Context, name string, only types.UID) (bool, error) {
	if err := r.api.turn(ctx); err != nil {
		return false, err
	}
	e, ok := r.book.edit(name, only, r.clock.Latest())
	if !ok {
		return false, nil
	}
	began := r.clock.Now()
	changed, err := r.api.patchNode(ctx, e)
	if err == nil {
		r.book.learned(changed, r.clock.See())
		logf.FromContext(ctx).V(1).Info("Wrote taints of rules", "node", name, "taints", e.Taints)
		return true, nil
	}
	wrote := false
	err = fmt.Errorf("write the taints of node %s: %w", name, err)
	switch {
	case apicall.Refused(err) && len(e.adds) > 1:
		for _, rule := range e.adds {
			one, also := r.writeNode(ctx, name, rule)
			wrote, err = wrote || one, errors.Join(err, also)
		}
	case apicall.Refused(err):
		r.book.refused(e, briefly(err), r.clock.Now())
	case apierrors.IsConflict(err): // others write it, too, and perhaps faster than the watch brings it
		err = errors.Join(err, r.readNode(ctx, name))
	case !apicall.IsNotFound(err) && !apierrors.IsTooManyRequests(err):
		r.book.unanswered(e, began.Add(apicall.Timeout))
	}
	return wrote, err
}

func (r *reconciler) readNode(ctx context.Context, name string) error {
	node, err := r.api.node(ctx, name)
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	r.book.learned(node, r.clock.See())
	return nil
}

// endDoubts reads the nodes whose taints may have been written by calls that were not answered and have ended by now.
func (r *reconciler) endDoubts(ctx context.Context) error {
	names, _ := r.book.overdue(r.clock.Now())
	var failed []error
	for _, name := range names {
		failed = append(failed, r.try("doubt about "+name, func() error {
			err := r.readNode(ctx, name)
			if err == nil || apicall.IsNotFound(err) {
				r.book.believe(name)
				return nil
			}
			return err
		}))
	}
	return errors.Join(failed...)
}

// report says what becomes of a rule: it lets go of one that is deleted when no node has its taint any more, or writes
// its status.
func (r *reconciler) report(ctx context.Context, p page) error {
	return r.try("status of rule "+p.rule.name, func() error {
		if !p.object.DeletionTimestamp.IsZero() {
			return r.release(ctx, p)
		}
		r.tellHolding(ctx, p)
		return r.writeStatus(ctx, p)
	})
}

// release takes our finalizer off when the API server, too, knows of no node with the rule's taint.
func (r *reconciler) release(ctx context.Context, p page) error {
	object := r.newest(p)
	if r.dryRun || !p.clean || !slices.Contains(object.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	nodes, err := r.api.labelled(ctx, p.rule.label)
	if err != nil {
		return fmt.Errorf("list the nodes with the taint of rule %s: %w", p.rule.name, err)
	}
	for i := range nodes {
		if nodes[i].Labels[p.rule.label] == p.rule.print {
			r.book.learned(&nodes[i], r.clock.See())
			return fmt.Errorf("node %s still has the taint of deleted rule %s: the watch is late", nodes[i].Name, p.rule.name)
		}
	}
	left := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	return r.writeFinalizers(ctx, object, left)
}

func (r *reconciler) writeFinalizers(ctx context.Context, object *v1alpha1.NodeTaintRule, finalizers []string) error {
	written, err := r.api.patchFinalizers(ctx, object, finalizers)
	return r.wrote(object, written, err)
}

// wrote notes the answer to a write of a rule. One that is not there any more needs none.
func (r *reconciler) wrote(object, written *v1alpha1.NodeTaintRule, err error) error {
	if err == nil {
		r.notes[object.UID].written = written
	}
	if apicall.IsNotFound(err) {
		return nil
	}
	return err
}

// tellHolding says that a rule has begun to hold nodes back, or has ended it.
func (r *reconciler) tellHolding(ctx context.Context, p page) {
	note := r.note(p)
	if note.holding == "" {
		note.holding = saysHolding(r.newest(p))
	}
	if note.holding == p.outcome.holding() {
		return
	}
	note.holding = p.outcome.holding()
	log := logf.FromContext(ctx).WithValues("rule", p.rule.name, "dryRun", p.rule.asIf)
	if p.outcome.held > 0 {
		log.Info("A rule holds nodes back", "held", p.outcome.held, "why", heldMessage(p))
	} else {
		log.Info("A rule holds no node back any more")
	}
	if !r.dryRun {
		r.events.holding(p)
	}
}

// writeStatus writes the status of a rule if it changed.
func (r *reconciler) writeStatus(ctx context.Context, p page) error {
	object := r.newest(p)
	status := statusOf(object, p)
	if apiequality.Semantic.DeepEqual(status, object.Status) {
		return nil
	}
	if r.dryRun {
		r.wouldSay(ctx, p, status)
		return nil
	}
	said := saysRefused(object)
	written, err := r.api.patchStatus(ctx, object, status)
	if err := r.wrote(object, written, err); err != nil || written == nil {
		return err
	}
	if !p.verdict.accepted() && said != p.verdict.reason {
		logf.FromContext(ctx).Info("A rule is not accepted", "rule", object.Name,
			"reason", p.verdict.reason, "message", p.verdict.message)
		r.events.refused(object, p.verdict)
	}
	if p.verdict.accepted() && said != "" {
		logf.FromContext(ctx).Info("A rule is accepted now", "rule", object.Name)
		r.events.accepted(object, p.verdict)
	}
	return nil
}

// wouldSay logs the status that a rule would get in a dry run, if it is news.
func (r *reconciler) wouldSay(ctx context.Context, p page, status v1alpha1.NodeTaintRuleStatus) {
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime.Reset()
	}
	note := r.note(p)
	if apiequality.Semantic.DeepEqual(note.would, status) {
		return
	}
	note.would = status
	logf.FromContext(ctx).Info("Dry run: a rule would taint", "rule", p.rule.name, "reason", p.verdict.reason,
		"selected", p.outcome.selected, "matching", p.outcome.matching, "tainted", p.outcome.tainted, "held", p.outcome.held)
}

// note returns what this process has done and said about a rule.
func (r *reconciler) note(p page) *note {
	if r.notes[p.object.UID] == nil {
		r.notes[p.object.UID] = &note{}
	}
	return r.notes[p.object.UID]
}

// newest returns a rule as it was last read or written, whichever is newer.
func (r *reconciler) newest(p page) *v1alpha1.NodeTaintRule {
	object := p.object
	if read, ok := r.watch.get(p.rule.name); ok && read.UID == object.UID {
		object = read
	}
	if written := r.note(p).written; written != nil && newer(written, object) {
		return written
	}
	return object
}

// try does something, unless it failed a moment ago. It counts failures, and spaces them out.
func (r *reconciler) try(what string, do func() error) error {
	if r.backoffs.Wait(what, r.clock.Now()) > 0 {
		return nil
	}
	err := do()
	if err == nil {
		r.backoffs.Forget(what)
		return nil
	}
	r.metrics.retries.WithLabelValues(apicall.Reason(err)).Inc()
	r.backoffs.Fail(what, err, r.clock.Now())
	return err
}
