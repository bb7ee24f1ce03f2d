// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// NodeRequest asks for a look at one node.
type NodeRequest struct{ Name string }

// reconciler makes a node what its plan says. It is the only writer of conditions and of taints for readiness.
type reconciler struct {
	dryRun  bool
	clock   *timeline.Clock
	nodes   *nodecache.Cache
	silence *silence
	zones   *readiness.Zones
	api     api
	events  *events
	metrics *metrics
	looks   *requests                               // of nodes whose plan can be another
	unready *requests                               // of nodes whose pods are not ready
	echo    *awaiting                               // nodes that wait for one
	backoff workqueue.TypedRateLimiter[NodeRequest] // the queue's
	notes   notes
}

// errStale: by the time of the call, it was no longer known that the node is silent.
var errStale = errors.New("the latest echo of our own renewals is too old")

// Reconcile looks at one node. Echoes, changes of nodes and turns of zones ask for it.
func (r *reconciler) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	began := r.clock.Now()
	defer func() { r.metrics.updateNode.Observe(r.clock.Since(began).Seconds()) }()
	known, ok := r.nodes.Get(req.Name)
	if !ok {
		r.notes.forget(req.Name)
		return reconcile.Result{}, nil
	}
	next, err := r.look(ctx, r.notes.newest(known.Node))
	switch {
	case apicall.Stopping(ctx): // the next process goes on
		return reconcile.Result{}, nil
	case errors.Is(err, errStale):
		r.echo.add(req.Name)
		return reconcile.Result{RequeueAfter: next}, nil
	case apicall.IsNotFound(err): // the watch will say that it is gone; unless it is not
		return reconcile.Result{RequeueAfter: apicall.LastBackoff}, nil
	case err != nil:
		r.failed(ctx, req, err)
		r.looks.addAfter(req.Name, next) // its turn may come before the queue's backoff is over
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// failed notes a failure, before the queue does. Nothing is ever given up.
func (r *reconciler) failed(ctx context.Context, req NodeRequest, err error) {
	r.metrics.retries.WithLabelValues(apicall.Reason(err)).Inc()
	if failures := r.backoff.NumRequeues(req) + 1; failures == troubleAfter {
		logf.FromContext(ctx).Info("A node cannot be changed; still trying",
			"node", req.Name, "failures", failures, "reason", err.Error())
	}
}

// look makes one node what it should be, and returns in what time its turn comes; zero: it waits for none, or is woken.
// Kubelets and others write the same object, so conflicts are ordinary: a live read then shows it as it is, which may
// be a sign of life.
func (r *reconciler) look(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	wait, err := r.settle(ctx, node)
	if !apierrors.IsConflict(err) {
		return wait, err
	}
	r.metrics.retries.WithLabelValues(apicall.Reason(err)).Inc()
	live, err := r.api.readNode(ctx, node.Name)
	if err != nil {
		return 0, fmt.Errorf("read node %s, which others have changed: %w", node.Name, err)
	}
	if live.UID != node.UID { // the watch will bring the new one
		return 0, nil
	}
	r.silence.saw(live, r.clock.Now())
	return r.settle(ctx, live)
}

// settle writes what the plan of a node says: first its conditions, and then, in one patch, its taints and labels.
func (r *reconciler) settle(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	f := r.factsOf(node)
	var failed error
	if conditions := f.Plan().Conditions; len(conditions) > 0 {
		changed, err := r.setUnknown(ctx, node, conditions)
		switch {
		case err == nil:
			f.Node = changed
		case apicall.Refused(err): // its taints can be right all the same
			f.Node, failed = readiness.WithConditions(node, conditions), err
		case apierrors.IsConflict(err), errors.Is(err, errStale):
			return 0, err
		default: // all else can be right
			f.Standing, failed = readiness.Doubtful, err
		}
	}
	wait, err := r.retaint(ctx, f)
	if failed != nil { // that is what is tried again
		err = failed
	}
	return wait, err
}

func (r *reconciler) factsOf(node *corev1.Node) readiness.Facts {
	f := readiness.Facts{Node: node, Disrupted: r.zones.AllDisrupted(), Now: r.clock.Latest()}
	if r.isSilent(node) {
		f.Standing = readiness.Silent
	}
	return f
}

// isSilent reports whether a node is silent now, and was when all nodes were counted: nobody is called silent of whom
// the zones do not know.
func (r *reconciler) isSilent(node *corev1.Node) bool {
	return r.zones.Silent(node.Name) && r.silence.knows(node) && r.silence.of(node.Name) == readiness.Silent
}

// setUnknown writes conditions of a silent node and returns it as it is then; in a dry run, as it would be.
func (r *reconciler) setUnknown(ctx context.Context, node *corev1.Node, conditions []corev1.NodeCondition) (
	*corev1.Node, error,
) {
	log := logf.FromContext(ctx).WithValues("node", node.Name)
	if r.dryRun {
		if r.notes.silent(node) {
			log.Info("Dry run: a node is silent, its grace period is over")
		}
		return readiness.WithConditions(node, conditions), nil
	}
	if err := r.api.turn(ctx); err != nil {
		return nil, err
	}
	if !r.isSilent(node) || !r.silence.freshAt(r.clock.Now()) { // it waited for its turn
		return nil, errStale
	}
	changed, err := r.api.patchConditions(ctx, node, conditions)
	if err != nil {
		return nil, fmt.Errorf("set the conditions of silent node %s to Unknown: %w", node.Name, err)
	}
	log.Info("A node is silent: its grace period is over")
	r.notes.wrote(changed)
	if readiness.IsReady(node) {
		r.events.notReady(node)
	}
	return changed, nil
}

// retaint writes the taints and labels of a node, in one patch if the API server takes it, if they are not as they
// should be.
func (r *reconciler) retaint(ctx context.Context, f readiness.Facts) (time.Duration, error) {
	p, wait, stale := r.planInTurn(f)
	if p.Key == corev1.TaintNodeUnreachable {
		r.unready.add(f.Node.Name)
	}
	switch {
	case !p.Retaints && len(p.Labels) == 0:
		return wait, stale
	case r.dryRun:
		if r.notes.taints(f.Node, p.Taints) {
			logf.FromContext(ctx).Info("Dry run: would taint", "node", f.Node.Name, "taints", p.Taints)
		}
		return wait, stale
	}
	err := cmp.Or(r.write(ctx, f.Node, p), stale)
	if !apicall.Refused(err) || !p.Retaints || len(p.Labels) == 0 {
		return wait, err
	}
	// Taints and labels have nothing to do with one another: one of them may be taken.
	taints, labels := p, p
	taints.Labels = nil
	labels.Taints, labels.Executes = f.Node.Spec.Taints, false
	if why := r.write(ctx, f.Node, taints); !apicall.Refused(why) {
		return wait, errors.Join(err, why)
	}
	return wait, errors.Join(err, r.write(ctx, f.Node, labels))
}

// planInTurn plans a node's taints, and asks its zone for a turn if it needs one. It returns how long to wait for that,
// and whether it was not asked because the turn would be lost: nobody can tell now whether the node is still silent.
func (r *reconciler) planInTurn(f readiness.Facts) (p readiness.Plan, wait time.Duration, stale error) {
	p = f.Plan()
	name := f.Node.Name
	if !p.Asks {
		r.looks.add(r.zones.GiveUp(name)...)
		r.notes.released(name)
		return p, 0, nil
	}
	now := r.clock.Now()
	if p.Key == corev1.TaintNodeUnreachable && !r.silence.freshAt(now) {
		return p, 0, errStale
	}
	turn := r.zones.Turn(name, now)
	r.looks.add(turn.Next...)
	if turn.Granted {
		r.notes.released(name)
		f.Granted = true
		return f.Plan(), 0, nil
	}
	tell, in := r.notes.held(name, turn.Held, now)
	if tell {
		r.events.held(f.Node, p.Key, turn.Held)
	}
	return p, sooner(in, turn.Wait), nil
}

func (r *reconciler) write(ctx context.Context, node *corev1.Node, p readiness.Plan) error {
	if err := r.api.turn(ctx); err != nil {
		return err
	}
	if p.Executes && p.Key == corev1.TaintNodeUnreachable && !r.silence.freshAt(r.clock.Now()) {
		return errStale
	}
	changed, err := r.api.patchTaints(ctx, node, apicall.NodeEdit{Taints: p.Taints, Labels: p.Labels})
	if err != nil {
		return fmt.Errorf("write the taints of node %s: %w", node.Name, err)
	}
	r.notes.wrote(changed)
	if p.Executes {
		r.zones.Used(node.Name)
	}
	logf.FromContext(ctx).V(1).Info("Wrote taints and labels", "node", klog.KObj(changed), "taints", p.Taints)
	return nil
}

// sooner returns the shorter of two waits, of which either may be none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
