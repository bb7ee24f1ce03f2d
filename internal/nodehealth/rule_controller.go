// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/apicall"
)

// RuleRequest asks for a plan of one rule.
type RuleRequest struct{ Name string }

// ruler plans rules. It writes no taints: the tainter does, when it looks at the nodes that ruler wakes.
type ruler struct {
	dryRun  bool
	nodes   *nodes
	watch   *ruleWatch
	book    *rulebook
	api     api
	client  client.Client
	events  *events
	metrics *metrics
	wake    func(node string)
	backoff workqueue.TypedRateLimiter[RuleRequest]
}

// Reconcile plans one rule, and comes back when the plan changes by time alone.
func (r *ruler) Reconcile(ctx context.Context, req RuleRequest) (reconcile.Result, error) {
	if !r.watch.listed() {
		return reconcile.Result{}, nil // when all are known, each is asked for
	}
	object, ok := r.watch.get(req.Name)
	if !ok {
		r.gone(req.Name)
		r.backoff.Forget(req)
		return reconcile.Result{}, nil
	}
	now := time.Now()
	next, err := r.rule(ctx, object, now)
	if err != nil && !apicall.Stopping(ctx) && !apicall.IsNotFound(err) { // on a shutdown the next process goes on
		return reconcile.Result{RequeueAfter: r.retry(ctx, req, err)}, nil
	}
	r.backoff.Forget(req)
	if next.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(next.Sub(now), time.Nanosecond)}, nil
}

func (r *ruler) retry(ctx context.Context, req RuleRequest, err error) time.Duration {
	r.metrics.retries.WithLabelValues(apicall.Reason(err)).Inc()
	wait := r.backoff.When(req)
	if failures := r.backoff.NumRequeues(req); failures == troubleAfter {
		logf.FromContext(ctx).Info("A rule cannot be changed; still trying", "rule", req.Name, "failures", failures, "reason", err.Error())
	}
	return wait
}

// gone takes the taints off the nodes that a rule which is no more has left behind.
func (r *ruler) gone(name string) {
	r.book.forget(name)
	for _, node := range r.nodes.all() {
		if _, owns := ownedBy(node)[name]; owns {
			r.wake(node.Name)
		}
	}
}

// rule plans one rule and returns when to do so again.
func (r *ruler) rule(ctx context.Context, object *v1alpha1.NodeTaintRule, now time.Time) (time.Time, error) {
	verdict := judge(object, r.watch.all())
	planned := newRule(object, verdict, r.dryRun)
	memory, planBefore := r.book.memory(planned)
	nodes := r.nodes.all()
	plan := planRule(planned, nodes, memory, now)
	if err := r.keepUntilClean(ctx, object, planned, plan); err != nil {
		return time.Time{}, err
	}
	clean := len(plan.claims) == 0 // the claims are the book's from here on
	for _, name := range r.book.enter(planned, plan, nodes) {
		r.wake(name)
	}
	if !object.DeletionTimestamp.IsZero() {
		if !clean {
			return time.Time{}, nil // the nodes wake the rule when they are settled
		}
		return time.Time{}, r.release(ctx, object)
	}
	if r.book.holds(object.Name, !planBefore, saysHolding(object), plan.holding()) {
		r.tellHolding(ctx, object, plan)
	}
	return plan.next, r.writeStatus(ctx, object, verdict, plan)
}

// keepUntilClean adds our finalizer before the first node is tainted.
func (r *ruler) keepUntilClean(ctx context.Context, object *v1alpha1.NodeTaintRule, planned *rule, plan rulePlan) error {
	if planned.asIf || len(plan.claims) == 0 || !object.DeletionTimestamp.IsZero() || slices.Contains(object.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	return r.api.writeFinalizers(ctx, r.client, object, append(slices.Clone(object.Finalizers), v1alpha1.Finalizer))
}

// release takes our finalizer off once no node has a taint of the rule. None is about to get one.
func (r *ruler) release(ctx context.Context, object *v1alpha1.NodeTaintRule) error {
	if r.dryRun || !slices.Contains(object.Finalizers, v1alpha1.Finalizer) || r.ownedSomewhere(object.Name) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	return r.api.writeFinalizers(ctx, r.client, object, left)
}

func (r *ruler) ownedSomewhere(name string) bool {
	for _, node := range r.nodes.all() {
		if _, owns := ownedBy(node)[name]; owns {
			return true
		}
	}
	return false
}

func (r *ruler) tellHolding(ctx context.Context, object *v1alpha1.NodeTaintRule, plan rulePlan) {
	log := logf.FromContext(ctx).WithValues("rule", object.Name, "dryRun", r.dryRun || object.Spec.DryRun)
	if plan.held > 0 {
		log.Info("A rule holds nodes back", "held", plan.held, "why", heldMessage(object, plan))
	} else {
		log.Info("A rule holds no node back any more")
	}
	if !r.dryRun {
		r.events.holding(object, plan)
	}
}

// writeStatus writes the status of a rule if it changed.
func (r *ruler) writeStatus(ctx context.Context, object *v1alpha1.NodeTaintRule, verdict ruling, plan rulePlan) error {
	status := statusOf(object, verdict, plan)
	if apiequality.Semantic.DeepEqual(status, object.Status) {
		return nil
	}
	if !r.dryRun {
		if err := r.api.writeRuleStatus(ctx, r.client, object, status); err != nil {
			return err
		}
		if !verdict.accepted() && saysRefused(object) != verdict.reason {
			logf.FromContext(ctx).Info("A rule is not accepted", "rule", object.Name, "reason", verdict.reason, "message", verdict.message)
			r.events.refused(object, verdict)
		}
		if verdict.accepted() && saysRefused(object) != "" {
			logf.FromContext(ctx).Info("A rule is accepted now", "rule", object.Name)
			r.events.accepted(object, verdict)
		}
		return nil
	}
	if r.book.wouldSay(object.Name, status) {
		logf.FromContext(ctx).Info("Dry run: a rule would taint", "rule", object.Name, "reason", verdict.reason,
			"selected", plan.selected, "matching", plan.matching, "tainted", plan.tainted, "held", plan.held)
	}
	return nil
}
