// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
)

// NodeRequest asks for a look at one node.
type NodeRequest struct{ Name string }

// tainter makes a node's conditions and taints what they should be.
type tainter struct {
	dryRun  bool
	grace   Grace
	nodes   *nodes
	probes  *probes
	zones   *zones
	api     api
	events  *events
	metrics *metrics
	unready func(name string) // is told of each node whose pods are not ready
	backoff workqueue.TypedRateLimiter[NodeRequest]
	notes   notes

	hung atomic.Pointer[time.Time] // when a live read was last given up; nil: never
}

// Reconcile looks at one node, and comes back when its assessment changes by time alone.
func (t *tainter) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	began := time.Now()
	defer func() { t.metrics.updateNode.Observe(time.Since(began).Seconds()) }()
	node, ok := t.nodes.get(req.Name)
	if !ok {
		t.zones.forget(req.Name, time.Now())
		t.backoff.Forget(req)
		t.notes.forget(req.Name)
		return reconcile.Result{}, nil
	}
	if !t.probes.knows(node) { // it is about to be, and that asks for a look
		return reconcile.Result{}, nil
	}
	if t.notes.superseded(node) {
		return reconcile.Result{RequeueAfter: staleFor}, nil
	}
	next, err := t.look(ctx, node)
	if apicall.Stopping(ctx) { // shutting down: the next process goes on
		return reconcile.Result{}, nil
	}
	if err != nil && !apicall.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: againIn(next, t.retry(ctx, req, err))}, nil // its turn may come before
	}
	t.backoff.Forget(req)
	if err != nil { // the watch will say that it is gone; unless it is not
		next = againIn(next, lastBackoff)
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// staleFor is how long to wait for the watch to bring a change of our own, unless it wakes us sooner.
const staleFor = time.Second

// retry notes a failure and returns how long to wait. Nothing is ever given up: kubelets and others write
// the same object, so conflicts are ordinary.
func (t *tainter) retry(ctx context.Context, req NodeRequest, err error) time.Duration {
	t.metrics.retries.WithLabelValues(apicall.Reason(err)).Inc()
	wait := t.backoff.When(req)
	if failures := t.backoff.NumRequeues(req); failures == troubleAfter {
		logf.FromContext(ctx).Info("A node cannot be changed; still trying", "node", req.Name, "failures", failures, "reason", err.Error())
	}
	return wait
}

// look makes one node what it should be, and returns in what time it has to be looked at again; zero
// when only a change of the node can change anything.
func (t *tainter) look(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	now := time.Now()
	assessment := Assess(node, t.probes.of(node.Name, now), t.grace, now)
	if len(assessment.Conditions) > 0 {
		if err := t.seekRenewal(ctx, node.Name); err != nil { // nobody knows whether it is silent; all else can be right
			t.zones.suspect(node, time.Now())
			wait, also := t.retaint(ctx, node, unlessReady(node))
			return wait, errors.Join(err, also)
		}
		now = time.Now()
		assessment = Assess(node, t.probes.of(node.Name, now), t.grace, now) // the watch may have brought something meanwhile, too
	}
	var failed error
	if len(assessment.Conditions) > 0 {
		changed, err := t.setUnknown(ctx, node, assessment.Conditions)
		switch {
		case err == nil:
			node = changed
		case apicall.Refused(err): // its taints can be right all the same
			node, failed = with(node, assessment.Conditions), err
		case apierrors.IsConflict(err) || !apicall.Answered(err): // its kubelet may be back
			t.zones.giveUp(node.Name) // it asks again once it can be changed; others go on meanwhile
			return 0, err
		default: // all else can be right
			t.zones.put(node, false, time.Now())
			wait, also := t.retaint(ctx, node, unlessReady(node))
			return wait, errors.Join(err, also)
		}
	}
	if assessment.Ready == corev1.ConditionUnknown {
		t.unready(node.Name)
	}
	if ready := assessment.Ready == corev1.ConditionTrue; ready && t.probes.isExcused(node.Name) {
		t.zones.suspect(node, time.Now())
	} else {
		t.zones.put(node, ready, time.Now())
	}
	wait, err := t.retaint(ctx, node, assessment.Ready)
	err = errors.Join(failed, err)
	if err == nil && t.dryRun && len(assessment.Conditions) > 0 { // its kubelet knows of nothing, so no change of the node will tell that it is back
		return againIn(wait, t.grace.of(node)), nil
	}
	if err != nil || assessment.SilentAt.IsZero() {
		return wait, err
	}
	silentIn := assessment.SilentAt.Sub(now) + time.Nanosecond
	if t.probes.isBlind() { // what is left does not become less
		silentIn = max(silentIn, staleFor)
	}
	return againIn(wait, silentIn), nil
}

// promptly is how long a live read takes at most when nothing is wrong: one that waits for longer shows that leases
// could not be read, nor perhaps renewed, until then.
const promptly = time.Second

// pauseAfterHang is how long after a live read that hung no other is begun: while none is answered they must not take
// all workers all the time.
const pauseAfterHang = time.Second

// seekRenewal looks for a renewal of a node that seems silent by a live read of its lease: the watch of leases can be
// late, and a connection that hangs is noticed only after 45 s. It fails when nobody can tell.
func (t *tainter) seekRenewal(ctx context.Context, node string) error {
	if at := t.hung.Load(); at != nil && time.Since(*at) < pauseAfterHang {
		t.probes.cannotRead(time.Now())
		return fmt.Errorf("read the lease of node %s, which seems silent: such reads hang: %w", node, context.DeadlineExceeded)
	}
	if err := t.api.turn(ctx); err != nil {
		return err
	}
	began := time.Now()
	lease, err := t.api.lease(ctx, node)
	missing := apicall.IsNotFound(err)
	failed := err != nil && !missing
	if failed || time.Since(began) > promptly {
		t.probes.cannotRead(time.Now())
	}
	if failed {
		if errors.Is(err, context.DeadlineExceeded) {
			t.hung.Store(new(time.Now()))
		}
		return fmt.Errorf("read the lease of node %s, which seems silent: %w", node, err)
	}
	t.probes.canRead(node, time.Now())
	if missing {
		t.probes.missLease(node, time.Now())
		return nil
	}
	if t.probes.renewed(node, renewTime(lease), time.Now()) {
		logf.FromContext(ctx).Info("A node seemed silent, but has renewed its lease: the watch of leases is late", "node", node)
	}
	return nil
}

// unlessReady returns the status of a node's condition Ready; none if it is True, on which nobody can rely.
func unlessReady(node *corev1.Node) corev1.ConditionStatus {
	if ready := condition(node, corev1.NodeReady); ready != nil && ready.Status != corev1.ConditionTrue {
		return ready.Status
	}
	return ""
}

// againIn returns the shorter of two waits, of which the first may be none.
func againIn(wait, silentIn time.Duration) time.Duration {
	if wait > 0 {
		return min(wait, silentIn)
	}
	return silentIn
}

// setUnknown writes conditions of a silent node and returns it as it is then; in a dry run, as it would be.
func (t *tainter) setUnknown(ctx context.Context, node *corev1.Node, conditions []corev1.NodeCondition) (*corev1.Node, error) {
	ready := condition(node, corev1.NodeReady)
	wasReady := ready != nil && ready.Status == corev1.ConditionTrue
	log := logf.FromContext(ctx).WithValues("node", node.Name)
	if t.dryRun {
		if t.notes.silent(node) {
			log.Info("Dry run: a node is silent, its grace period is over")
		}
		return with(node, conditions), nil
	}
	changed, err := t.api.patchConditions(ctx, node, conditions)
	if err != nil {
		return nil, fmt.Errorf("set the conditions of silent node %s to Unknown: %w", node.Name, err)
	}
	log.Info("A node is silent: its grace period is over")
	t.notes.changes(node, changed)
	if wasReady {
		t.events.notReady(node)
	}
	return changed, nil
}

// with returns the node with some conditions in the place of its own.
func with(node *corev1.Node, conditions []corev1.NodeCondition) *corev1.Node {
	changed := node.DeepCopy()
	for _, c := range conditions {
		if known := condition(changed, c.Type); known != nil {
			*known = c
			continue
		}
		changed.Status.Conditions = append(changed.Status.Conditions, c)
	}
	return changed
}

// retaint writes the node's taints and labels, in one patch if the API server takes it, if they are not as they
// should be.
func (t *tainter) retaint(ctx context.Context, node *corev1.Node, ready corev1.ConditionStatus) (time.Duration, error) {
	now := time.Now()
	keys, wait := t.noExecute(node, ready, now)
	taints, executing := retaintNoExecute(node.Spec.Taints, keys, now)
	taints, scheduling := retaint(taints, ownsNoSchedule, corev1.TaintEffectNoSchedule, noSchedule(node), now)
	labels := legacyLabels(node)
	all := edit{taints: taints, labels: labels, first: executing && len(keys) > 0}
	var parts []edit
	if executing || scheduling {
		parts = append(parts, edit{taints: taints, first: all.first})
	}
	if len(labels) > 0 {
		parts = append(parts, edit{taints: node.Spec.Taints, labels: labels})
	}
	if len(parts) == 0 {
		return wait, nil
	}
	if t.dryRun {
		if t.notes.taints(node, taints) {
			logf.FromContext(ctx).Info("Dry run: would taint", "node", node.Name, "taints", taints)
		}
		return wait, nil
	}
	return wait, t.writeOr(ctx, node, all, parts)
}

// edit is what to write of a node.
type edit struct {
	taints []corev1.Taint
	labels map[string]string
	first  bool // a NoExecute taint for its readiness, in its turn
}

// writeOr writes an edit; if it is refused, the first of its parts that is not. What has to do with its readiness and
// conditions and its labels have nothing to do with one another. The rest is for the next look.
func (t *tainter) writeOr(ctx context.Context, node *corev1.Node, all edit, parts []edit) error {
	err := t.write(ctx, node, all)
	if !apicall.Refused(err) {
		return err
	}
	for _, part := range parts {
		why := err
		if len(parts) > 1 {
			why = t.write(ctx, node, part)
		}
		if !apicall.Refused(why) {
			return errors.Join(err, why)
		}
	}
	return err
}

func (t *tainter) write(ctx context.Context, node *corev1.Node, e edit) error {
	changed, err := t.api.patchNodeTaints(ctx, node, e.taints, e.labels)
	if err != nil {
		return fmt.Errorf("write the taints of node %s: %w", node.Name, err)
	}
	t.notes.changes(node, changed)
	if e.first {
		t.zones.used(node.Name)
	}
	logf.FromContext(ctx).V(1).Info("Wrote taints and labels", "node", klog.KObj(changed), "taints", e.taints)
	return nil
}

// noExecute returns the keys of the NoExecute taints that the node should have now, and how long to wait
// if it should have another one that its zone holds back.
func (t *tainter) noExecute(node *corev1.Node, ready corev1.ConditionStatus, now time.Time) ([]string, time.Duration) {
	var has []string
	for _, taint := range node.Spec.Taints {
		if ownsNoExecute(taint) {
			has = append(has, taint.Key)
		}
	}
	key, decided := noExecute(ready)
	allDisrupted := t.zones.allDisrupted()
	switch {
	case !decided:
		t.zones.giveUp(node.Name)
		t.notes.released(node.Name)
		return has, 0
	case key == "":
		t.zones.giveUp(node.Name)
		t.notes.released(node.Name)
		return nil, 0
	case allDisrupted:
		has = nil
	case len(has) > 0: // one for the other at once: it has had its turn
		t.zones.giveUp(node.Name)
		return []string{key}, 0
	}
	turn := t.zones.turn(node.Name, now)
	if turn.Granted {
		t.notes.released(node.Name)
		return []string{key}, 0
	}
	tell, in := t.notes.held(node.Name, turn.Held, now)
	if tell {
		t.events.held(node, key, turn.Held)
	}
	if in > 0 {
		return has, againIn(turn.Wait, in)
	}
	return has, turn.Wait
}

// legacyLabels returns the labels for the operating system and the architecture that have to be set so
// that the beta ones are equal to the stable ones.
func legacyLabels(node *corev1.Node) map[string]string {
	labels := map[string]string{}
	for stable, beta := range map[string]string{
		corev1.LabelOSStable:   "beta.kubernetes.io/os",
		corev1.LabelArchStable: "beta.kubernetes.io/arch",
	} {
		known, has := node.Labels[beta]
		if value, ok := node.Labels[stable]; ok && (!has || known != value) {
			labels[beta] = value
		}
	}
	return labels
}
