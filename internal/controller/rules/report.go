// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// report writes the status of a rule. It releases a rule that is being deleted once no node has its taint any longer.
func (r *reconciler) report(ctx context.Context, p outcome) error {
	return r.try(p, "status", func() error {
		if p.rule.object.DeletionTimestamp.IsZero() {
			return r.writeStatus(ctx, p)
		}
		return r.release(ctx, p)
	})
}

// keep gives a rule our finalizer.
func (r *reconciler) keep(ctx context.Context, p outcome) error {
	object := r.newest(p)
	if slices.Contains(object.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	return r.writeFinalizers(ctx, object, append(slices.Clone(object.Finalizers), v1alpha1.Finalizer))
}

// release removes our finalizer if, according to the API server too, no node has the rule's taint.
func (r *reconciler) release(ctx context.Context, p outcome) error {
	object := r.newest(p)
	if r.dryRun || !p.clean || !slices.Contains(object.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	late, err := r.api.labeled(ctx, p.rule)
	if err != nil {
		return err
	}
	if len(late) > 0 {
		p.pending = late
		return errors.Join(r.writeNodes(ctx, p, false),
			fmt.Errorf("node %s still had the taint of deleted rule %s, because the watch lags", late[0], object.Name))
	}
	left := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	return r.writeFinalizers(ctx, object, left)
}

// writeFinalizers writes the finalizers of a rule, with the precondition that the rule has not changed since it was
// read.
func (r *reconciler) writeFinalizers(ctx context.Context, object *v1alpha1.NodeTaintRule, finalizers []string) error {
	changed := object.DeepCopy()
	changed.Finalizers = finalizers
	_, err := r.writeRule(ctx, "finalizers", object.UID, changed, func(ctx context.Context) error {
		return r.api.rules.Patch(ctx, changed, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	})
	return err
}

// writeStatus writes the status of a rule, which has no other writer, if it changed.
func (r *reconciler) writeStatus(ctx context.Context, p outcome) error {
	object := r.newest(p)
	changed := object.DeepCopy()
	setStatus(&changed.Status, p)
	if apiequality.Semantic.DeepEqual(changed.Status, object.Status) {
		return nil
	}
	if r.dryRun {
		r.notes[object.UID].written = changed
		logf.FromContext(ctx).Info("Dry run: would write a rule's status", "rule", object.Name,
			"reason", p.rule.ruling.reason, "selected", p.selected, "matching", p.matching,
			"tainted", p.tainted, "held", p.held, "why", heldMessage(p))
		return nil
	}
	wrote, err := r.writeRule(ctx, "status", object.UID, changed, func(ctx context.Context) error {
		return r.api.rules.Status().Patch(ctx, changed, client.MergeFrom(object))
	})
	if wrote {
		r.announce(ctx, p, object)
	}
	return err
}

// writeRule makes a call that writes a rule, and reports whether it was written. A rule that no longer exists needs
// nothing.
func (r *reconciler) writeRule(
	ctx context.Context, what string, uid types.UID, changed *v1alpha1.NodeTaintRule, patch func(context.Context) error,
) (bool, error) {
	err := r.api.call(ctx, patch)
	switch {
	case apicall.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write the %s of rule %s: %w", what, changed.Name, err)
	}
	if changed.UID == uid { // it may be another rule of that name by now
		r.notes[uid].written = changed
	}
	return true, nil
}

// announce logs and records as events what has changed since a version of the rule: whether it is accepted, and whether
// it holds nodes back.
func (r *reconciler) announce(ctx context.Context, p outcome, before *v1alpha1.NodeTaintRule) {
	log := logf.FromContext(ctx).WithValues("rule", before.Name, "dryRun", p.rule.dryRun)
	about := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeTaintRule", Name: before.Name, UID: before.UID,
	}
	if is := p.rule.ruling; is.reason != reasonOf(before, v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted) {
		kind := corev1.EventTypeNormal
		if !is.accepted() {
			kind = corev1.EventTypeWarning
		}
		log.Info("Whether a rule is accepted has changed", "reason", is.reason, "message", is.message)
		r.events.Eventf(about, kind, is.reason, "%s", is.message)
	}
	if p.holding() == reasonOf(before, v1alpha1.ConditionHolding, v1alpha1.ReasonNoNodeHeld) {
		return
	}
	suffix := ""
	if p.rule.dryRun {
		suffix = v1alpha1.DryRunSuffix
	}
	if p.held == 0 {
		log.Info("No nodes wait for the taint of a rule any longer")
		r.events.Eventf(about, corev1.EventTypeNormal, "TaintNoLongerHeld",
			"No node is waiting for taint %s any longer.%s", p.rule.text, suffix)
		return
	}
	log.Info("Nodes wait for the taint of a rule", "held", p.held, "why", heldMessage(p))
	r.events.Eventf(about, corev1.EventTypeWarning, "TaintHeld", "%s%s", heldMessage(p), suffix)
}

// reasonOf returns the reason of a condition of a rule, or another if it has no such condition.
func reasonOf(object *v1alpha1.NodeTaintRule, condition, otherwise string) string {
	if is := meta.FindStatusCondition(object.Status.Conditions, condition); is != nil {
		return is.Reason
	}
	return otherwise
}

// setStatus sets the status of a rule according to its newest plan.
func setStatus(status *v1alpha1.NodeTaintRuleStatus, p outcome) {
	ruling, generation := p.rule.ruling, p.rule.object.Generation
	status.ObservedGeneration = generation
	status.Selected, status.Matching = int32(p.selected), int32(p.matching)
	status.Tainted, status.Held = int32(p.tainted), int32(p.held)
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: statusIf(ruling.accepted()),
		Reason: ruling.reason, Message: ruling.message, ObservedGeneration: generation,
	})
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionHolding, Status: statusIf(p.held > 0),
		Reason: p.holding(), Message: heldMessage(p), ObservedGeneration: generation,
	})
}

func statusIf(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// heldMessage explains in sentences why nodes wait.
func heldMessage(p outcome) string {
	var sentences []string
	if waiting := p.held - p.refused; waiting > 0 {
		bound := fmt.Sprint(p.bound)
		if text := p.rule.object.Spec.MaxTainted.String(); text != bound {
			bound = fmt.Sprintf("%d (%s)", p.bound, text)
		}
		sentences = append(sentences, fmt.Sprintf("%s for taint %s: the rule selects %s and taints at most %s.",
			sentence.Do(waiting, "node", "waits", "wait"), p.rule.text, sentence.Counted(p.selected, "node"), bound))
	}
	if p.refused > 0 {
		sentences = append(sentences, fmt.Sprintf("%s cannot get taint %s; Taintkeeper retries every minute. For node %s, the API server says: %s",
			sentence.Counted(p.refused, "node"), p.rule.text, p.example, p.why))
	}
	if len(sentences) == 0 {
		return "No node waits for the taint."
	}
	return strings.Join(sentences, " ")
}

// newRetries makes the counter of failed writes. It registers that and the numbers of the rules if there is a registry.
func newRetries(registry prometheus.Registerer, view *view) (*prometheus.CounterVec, error) {
	retries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "taintkeeper_node_health_retries_total",
		Help: "Failed updates of nodes, which are retried, by the API's reason.",
	}, []string{"reason"})
	if registry == nil {
		return retries, nil
	}
	if err := registry.Register(retries); err != nil {
		var known prometheus.AlreadyRegisteredError // node health counts in it, too
		if !errors.As(err, &known) {
			return nil, err
		}
		retries = known.ExistingCollector.(*prometheus.CounterVec)
	}
	return retries, registry.Register(ruleCollector{view})
}

// ruleCollector reports, at scrape time, what the rules do.
type ruleCollector struct{ view *view }

var ruleNodesDesc = prometheus.NewDesc("taintkeeper_rule_nodes",
	"Nodes by NodeTaintRule: matching have its condition, tainted have its taint (in a dry run: would have it), held wait because of maxTainted or because the API server refuses the taint.",
	[]string{"rule", "state"}, nil)

// Describe implements prometheus.Collector.
func (c ruleCollector) Describe(descs chan<- *prometheus.Desc) { descs <- ruleNodesDesc }

// Collect implements prometheus.Collector.
func (c ruleCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, p := range c.view.all() {
		for state, count := range map[string]int{"matching": p.matching, "tainted": p.tainted, "held": p.held} {
			metrics <- prometheus.MustNewConstMetric(
				ruleNodesDesc, prometheus.GaugeValue, float64(count), p.rule.object.Name, state)
		}
	}
}
