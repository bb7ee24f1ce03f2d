// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/custom"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// Request requests a plan of a rule.
type Request struct {
	Name string
	UID  types.UID
}

const (
	// concurrentNodes is how many nodes are changed at the same time.
	concurrentNodes = 8
	// heirsTake is how long a deleted rule waits before it checks whether another rule has taken over its taints.
	heirsTake = time.Second
)

// reconciler plans a rule and writes what the plan says. It is the only writer of rules' taints and labels. It handles
// one rule at a time and plans only between its writes, so no plan needs to consider writes under way.
type reconciler struct {
	dryRun   bool
	clock    *timeline.Clock
	watch    *custom.Watch[*v1alpha1.NodeTaintRule]
	view     *view
	api      api
	events   *events
	metrics  *metrics
	requests *requests
	notes    map[types.UID]*note
}

// note is what this process has done and reported about a rule.
type note struct {
	holding  string                       // the reason in the last event about its condition Holding, or empty
	would    v1alpha1.NodeTaintRuleStatus // what a dry run has logged
	written  *v1alpha1.NodeTaintRule      // the newest answer to a write of the rule
	backoffs apicall.Backoffs[string]     // backoffs of its nodes, and of the rule itself
}

// Reconcile plans a rule, changes the nodes as the plan wants, and reports the result.
func (r *reconciler) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	if !r.watch.Listed() {
		return reconcile.Result{}, nil // once all rules are known, there is another request
	}
	began := r.clock.Now()
	p, ok := r.view.plan(request.UID, nil, began)
	if !ok {
		delete(r.notes, request.UID)
		return reconcile.Result{}, nil
	}
	backoffs := &r.note(p).backoffs
	p, may, err := r.admit(ctx, p)
	err = errors.Join(err, r.writeNodes(ctx, p, may), r.report(ctx, p))
	if p.gone && p.clean {
		delete(r.notes, request.UID)
	}
	if apicall.Stopping(ctx) { // the next process continues
		return reconcile.Result{}, nil
	}
	now := r.clock.Now()
	next := instant.Next(p.next, backoffs.Next(began)) // including what could have been tried again meanwhile
	if len(p.pending) > 0 && !r.dryRun && !p.object.DeletionTimestamp.IsZero() {
		next = instant.Next(next, now.Add(heirsTake))
	}
	if !next.IsZero() {
		r.requests.add(max(next.Sub(now), time.Nanosecond), request)
	}
	return reconcile.Result{}, err
}

// admit reports whether the rule may add its taint to nodes now. The watch of rules must work, so that no old rule
// taints nodes. The rule must have our finalizer, so that it stays until its taints are removed. The API server must
// say which nodes have the taint, so that there are never more than maxTainted. It returns a plan that takes that into
// account.
func (r *reconciler) admit(ctx context.Context, p planned) (planned, bool, error) {
	if p.rule.asIf || p.rule.frozen || p.clean || !p.object.DeletionTimestamp.IsZero() || !r.watch.Known() {
		return p, false, nil
	}
	may := false
	err := r.try(p, "", func() error {
		if err := r.keepRule(ctx, p); err != nil {
			return err
		}
		may = p.rule.spec.MaxTainted == nil
		if may || !p.adds {
			return nil
		}
		listed, err := r.api.labeled(ctx, p.rule)
		if err != nil {
			return err
		}
		if next, ok := r.view.plan(p.object.UID, listed, r.clock.Now()); ok {
			p, may = next, true
		}
		return nil
	})
	return p, may, err
}

// keepRule gives a rule our finalizer.
func (r *reconciler) keepRule(ctx context.Context, p planned) error {
	object := r.newest(p)
	if slices.Contains(object.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	return r.writeFinalizers(ctx, object, append(slices.Clone(object.Finalizers), v1alpha1.Finalizer))
}

// writeNodes changes the nodes as the plan wants.
func (r *reconciler) writeNodes(ctx context.Context, p planned, may bool) error {
	if r.dryRun {
		return nil
	}
	var (
		group  errgroup.Group
		mu     sync.Mutex
		failed []error
	)
	group.SetLimit(concurrentNodes)
	for _, name := range p.pending {
		group.Go(func() error {
			err := r.try(p, name, func() error { return r.writeNode(ctx, p, name, may) })
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed, so that one does not stop the others
	return errors.Join(failed...)
}

// writeNode changes a node as the plan wants. It decides from a live read, because the watch may lag behind the last
// write.
func (r *reconciler) writeNode(ctx context.Context, p planned, name string, may bool) error {
	node, err := r.api.node(ctx, name)
	if apicall.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	if err := r.api.token(ctx); err != nil {
		return err
	}
	e, ok := r.view.edit(p.object.UID, p.rule, node, may, r.clock.Latest())
	if !ok {
		return nil
	}
	began := r.clock.Now()
	err = r.api.patchNode(ctx, e)
	if err == nil {
		logf.FromContext(ctx).V(1).Info("Wrote taints of rules", "node", name, "taints", e.Taints)
		return nil
	}
	switch {
	case !e.adds:
	case apicall.Refused(err):
		r.view.refused(p.object.UID, name, briefly(err), r.clock.Now())
	case !apierrors.IsConflict(err) && !apicall.IsNotFound(err) && !apierrors.IsTooManyRequests(err):
		r.view.lost(p.object.UID, node, began.Add(apicall.Timeout))
	}
	return fmt.Errorf("write the taints of node %s: %w", name, err)
}

// note returns what this process has done and reported about a rule.
func (r *reconciler) note(p planned) *note {
	if r.notes[p.object.UID] == nil {
		r.notes[p.object.UID] = &note{}
	}
	return r.notes[p.object.UID]
}

// newest returns a rule as it was last read or written, whichever is newer.
func (r *reconciler) newest(p planned) *v1alpha1.NodeTaintRule {
	object := p.object
	if read, ok := r.watch.Get(p.rule.name); ok && read.UID == object.UID {
		object = read
	}
	if written := r.note(p).written; written != nil && newer(written, object) {
		return written
	}
	return object
}

// try calls a function for a rule, unless it failed a moment ago. It counts failures, and backs off.
func (r *reconciler) try(p planned, what string, do func() error) error {
	backoffs := &r.notes[p.object.UID].backoffs
	if backoffs.Wait(what, r.clock.Now()) > 0 {
		return nil
	}
	err := do()
	if err == nil {
		backoffs.Forget(what)
		return nil
	}
	r.metrics.retries.WithLabelValues(apicall.Reason(err)).Inc()
	backoffs.Fail(what, err, r.clock.Now())
	return err
}
