// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// NodeRequest asks for a look at one node.
type NodeRequest struct{ Name string }

// reconciler changes a node as its plan says. It is the only writer of conditions and of taints for readiness.
type reconciler struct {
	dryRun  bool
	clock   *timeline.Clock
	nodes   *nodecache.Cache
	records *records
	client  kubernetes.Interface
	limiter *rate.Limiter // nil for no limit
	events  *events
	metrics *metrics
	looks   *requests                               // nodes whose plans may have changed
	unready *requests                               // nodes whose pods are not ready
	backoff workqueue.TypedRateLimiter[NodeRequest] // the queue's
}

// Reconcile looks at one node. Echoes and changes of nodes and zones request it.
func (r *reconciler) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	began := r.clock.Now()
	defer func() { r.metrics.updateNode.Observe(r.clock.Since(began).Seconds()) }()
	known, ok := r.nodes.Get(req.Name)
	if !ok {
		return reconcile.Result{}, nil
	}
	err := r.syncNode(ctx, r.records.newest(known.Node))
	switch {
	case apicall.Stopping(ctx): // the next process continues
		return reconcile.Result{}, nil
	case apicall.IsNotFound(err): // the watch will report it as gone, if it is
		return reconcile.Result{RequeueAfter: apicall.LastBackoff}, nil
	case err != nil:
		r.failed(ctx, req, err)
	}
	return reconcile.Result{}, err
}

// failed notes a failure, before the queue does. Nodes are retried indefinitely.
func (r *reconciler) failed(ctx context.Context, req NodeRequest, err error) {
	r.metrics.retries.WithLabelValues(apicall.Reason(err)).Inc()
	if failures := r.backoff.NumRequeues(req) + 1; failures == troubleAfter {
		logf.FromContext(ctx).Info("A node cannot be changed; still trying",
			"node", req.Name, "failures", failures, "reason", err.Error())
	}
}

// syncNode brings the taints, labels and conditions of one node in line with its plan. Conflicts are common, because
// kubelets and other clients write the same object. After a conflict, it reads the node live. That read can bring a
// sign of life.
func (r *reconciler) syncNode(ctx context.Context, node *corev1.Node) error {
	err := r.apply(ctx, node)
	if !apierrors.IsConflict(err) {
		return err
	}
	r.metrics.retries.WithLabelValues(apicall.Reason(err)).Inc()
	live, err := apicall.GetNode(ctx, r.client, r.limiter, node.Name)
	if err != nil {
		return fmt.Errorf("read node %s, which others have changed: %w", node.Name, err)
	}
	if live.UID != node.UID { // the watch will bring the new node
		return nil
	}
	r.records.saw(live, r.clock.See())
	return r.apply(ctx, live)
}

// apply writes what the plan of a node says: first its conditions, then, in one patch, its taints and labels.
func (r *reconciler) apply(ctx context.Context, node *corev1.Node) error {
	facts := readiness.Facts{Node: node, Standing: readiness.Silent}
	d := r.decide(facts)
	if len(d.Conditions) == 0 {
		return r.retaint(ctx, facts, d)
	}
	changed, err := r.setUnknown(ctx, facts, d.Conditions)
	switch {
	case err == nil:
		facts.Node = changed
	case apicall.Refused(err): // its taints may be writable anyway
		facts.Node = readiness.WithConditions(node, d.Conditions)
	case apierrors.IsConflict(err):
		return err
	default: // the rest may be writable
		facts.Standing = readiness.Doubtful
	}
	return cmp.Or(err, r.retaint(ctx, facts, r.decide(facts)))
}

// decide decides what a node should become now, and requests other nodes, and this one later, accordingly.
func (r *reconciler) decide(facts readiness.Facts) decision {
	d := r.records.decide(facts, r.clock.See())
	r.looks.add(d.wake...)
	r.looks.addAfter(facts.Node.Name, d.wait)
	if d.say != nil {
		r.events.held(facts.Node, d.Key, *d.say)
	}
	return d
}

// setUnknown writes the conditions of a silent node and returns the patched node; in a dry run, as it would be.
func (r *reconciler) setUnknown(ctx context.Context, facts readiness.Facts, conditions []corev1.NodeCondition) (
	*corev1.Node, error,
) {
	node, log := facts.Node, logf.FromContext(ctx).WithValues("node", facts.Node.Name)
	if r.dryRun {
		if r.records.isSilent(node) {
			log.Info("Dry run: a node is silent, because its grace period is over")
		}
		return readiness.WithConditions(node, conditions), nil
	}
	if err := apicall.Token(ctx, r.limiter); err != nil {
		return nil, err
	}
	if conditions = r.decide(facts).Conditions; len(conditions) == 0 { // heard meanwhile, or no fresh echo
		return node, nil
	}
	changed, err := apicall.PatchNodeConditions(ctx, r.client, node, conditions)
	if err != nil {
		return nil, fmt.Errorf("set the conditions of silent node %s to Unknown: %w", node.Name, err)
	}
	log.Info("A node is silent: its grace period is over")
	r.records.wrote(changed, false)
	if readiness.IsReady(node) {
		r.events.notReady(node)
	}
	return changed, nil
}

// retaint writes the taints and labels of a node if they are not as they should be, in one patch if the API server
// accepts it.
func (r *reconciler) retaint(ctx context.Context, facts readiness.Facts, d decision) error {
	if d.Key == corev1.TaintNodeUnreachable {
		r.unready.add(facts.Node.Name)
	}
	switch {
	case !d.Writes():
		return nil
	case r.dryRun:
		if r.records.wouldGet(facts.Node, d.Taints) {
			logf.FromContext(ctx).Info("Dry run: would write taints and labels", "node", facts.Node.Name, "taints", d.Taints)
		}
		return nil
	}
	facts.Granted = d.Takes
	whole := func(p readiness.Plan) readiness.Plan { return p }
	err := r.write(ctx, facts, whole)
	if !apicall.Refused(err) || !d.Retaints || len(d.Labels) == 0 {
		return err
	}
	// Taints and labels are independent: the API server may accept one of them.
	if why := r.write(ctx, facts, readiness.Plan.WithoutLabels); !apicall.Refused(why) {
		return errors.Join(err, why)
	}
	return errors.Join(err, r.write(ctx, facts, readiness.Plan.WithoutTaints))
}

// write waits for the rate limit, plans again, and writes a part of that plan.
func (r *reconciler) write(ctx context.Context, facts readiness.Facts, part func(readiness.Plan) readiness.Plan) error {
	if err := apicall.Token(ctx, r.limiter); err != nil {
		return err
	}
	p := part(r.decide(facts).Plan)
	if !p.Writes() {
		return nil
	}
	if !p.Retaints {
		p.Taints = facts.Node.Spec.Taints
	}
	edit := apicall.NodeEdit{Taints: p.Taints, Labels: p.Labels}
	changed, err := apicall.PatchTaints(ctx, r.client, facts.Node, edit, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("write the taints of node %s: %w", facts.Node.Name, err)
	}
	r.records.wrote(changed, p.Executes)
	logf.FromContext(ctx).V(1).Info("Wrote taints and labels", "node", klog.KObj(changed), "taints", p.Taints)
	return nil
}

// requests passes the names of nodes to the queue of a controller. Names that come before the queue exists are dropped,
// because a controller begins with all nodes.
type requests struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[NodeRequest]]
}

func (r *requests) add(names ...string) {
	queue := r.queue.Load()
	if queue == nil {
		return
	}
	for _, name := range names {
		(*queue).Add(NodeRequest{name})
	}
}

// addAfter asks for a look at a node after at most the given wait, or for none if the wait is zero.
func (r *requests) addAfter(name string, wait time.Duration) {
	if queue := r.queue.Load(); queue != nil && wait > 0 {
		(*queue).AddAfter(NodeRequest{name}, wait)
	}
}

func (r *requests) started() bool { return r.queue.Load() != nil }

// from is these requests as the source of a controller. Nothing is reconciled before begin returns, which requests all
// nodes once they are known.
func (r *requests) from(begin func(context.Context) error) stage.Source[NodeRequest] {
	return stage.Source[NodeRequest]{
		Of:   "nodes that changed, fell silent or may be tainted",
		To:   func(queue workqueue.TypedRateLimitingInterface[NodeRequest]) { r.queue.Store(&queue) },
		Wait: begin,
	}
}

// marker sets the condition Ready of the pods of a silent node to False, so that no Service sends them traffic. Their
// kubelet would do it if it could.
type marker struct {
	nodes    *nodecache.Cache
	pods     *podcache.Cache
	clock    *timeline.Clock
	client   kubernetes.Interface
	limiter  *rate.Limiter // nil for no limit
	events   *events
	backoffs apicall.Backoffs[types.UID] // pods that could not be marked
}

// Reconcile marks the pods of one node, and requeues the node until all are done.
func (m *marker) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	var failed []error
	var next time.Duration
	for _, pod := range m.pods.OnNode(req.Name) {
		if !pod.Flags.Has(podcache.Ready) {
			continue
		}
		if !m.silent(req.Name) || apicall.Stopping(ctx) {
			break
		}
		if wait := m.backoffs.Wait(pod.UID, m.clock.Now()); wait > 0 {
			next = sooner(next, wait)
			continue
		}
		if err := m.mark(ctx, pod); err != nil {
			m.backoffs.Fail(pod.UID, err, m.clock.Now())
			failed = append(failed, err)
			continue
		}
		m.backoffs.Forget(pod.UID)
	}
	switch {
	case apicall.Stopping(ctx):
		return reconcile.Result{}, nil
	case len(failed) > 0: // the queue's backoff is short, and the next request finds each pod with its own
		return reconcile.Result{}, errors.Join(failed...)
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

func (m *marker) silent(name string) bool {
	node, ok := m.nodes.Get(name)
	if !ok {
		return false
	}
	ready := readiness.Condition(node.Node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

// mark sets the condition Ready of exactly this pod to False, and keeps its reason. A pod that is gone, or whose name
// another pod has, is done.
func (m *marker) mark(ctx context.Context, pod *podcache.Pod) error {
	if err := apicall.Token(ctx, m.limiter); err != nil {
		return err
	}
	exactly := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	_, err := apicall.PatchPodCondition(ctx, m.client, exactly, map[string]any{
		"type": corev1.PodReady, "status": corev1.ConditionFalse, "lastTransitionTime": metav1.NewTime(m.clock.Latest()),
	})
	switch {
	case apicall.IsNotFound(err), apicall.IsAnotherUID(err):
		return nil
	case err != nil:
		return fmt.Errorf("set the condition Ready of pod %s to False: %w", pod.Key(), err)
	}
	m.events.podNotReady(pod)
	return nil
}
