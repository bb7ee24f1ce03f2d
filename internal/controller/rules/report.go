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
	"k8s.io/client-go/kubernetes"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// report writes the status of a rule. It releases a rule that is being deleted once no node has its taint any longer.
func (r *reconciler) report(ctx context.Context, p planned) error {
	if p.gone {
		return nil
	}
	return r.try(p, "status", func() error {
		if !p.object.DeletionTimestamp.IsZero() {
			return r.release(ctx, p)
		}
		r.tellHolding(ctx, p)
		return r.writeStatus(ctx, p)
	})
}

// release removes our finalizer if, according to the API server too, no node has the rule's taint.
func (r *reconciler) release(ctx context.Context, p planned) error {
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
			fmt.Errorf("node %s still had the taint of deleted rule %s, because the watch lags", late[0], p.rule.name))
	}
	left := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	return r.writeFinalizers(ctx, object, left)
}

func (r *reconciler) writeFinalizers(ctx context.Context, object *v1alpha1.NodeTaintRule, finalizers []string) error {
	written, err := r.api.patchFinalizers(ctx, object, finalizers)
	return r.wrote(object, written, err)
}

// wrote notes the answer to a write of a rule. A rule that no longer exists needs none.
func (r *reconciler) wrote(object, written *v1alpha1.NodeTaintRule, err error) error {
	if err == nil {
		r.notes[object.UID].written = written
	}
	if apicall.IsNotFound(err) {
		return nil
	}
	return err
}

// tellHolding reports that a rule has begun or ceased to hold nodes back.
func (r *reconciler) tellHolding(ctx context.Context, p planned) {
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
		log.Info("Nodes wait for the taint of a rule", "held", p.outcome.held, "why", heldMessage(p))
	} else {
		log.Info("No nodes wait for the taint of a rule any longer")
	}
	if !r.dryRun {
		r.events.holding(p)
	}
}

// writeStatus writes the status of a rule if it changed.
func (r *reconciler) writeStatus(ctx context.Context, p planned) error {
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
func (r *reconciler) wouldSay(ctx context.Context, p planned, status v1alpha1.NodeTaintRuleStatus) {
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime.Reset()
	}
	note := r.note(p)
	if apiequality.Semantic.DeepEqual(note.would, status) {
		return
	}
	note.would = status
	logf.FromContext(ctx).Info("Dry run: would write a rule's status", "rule", p.rule.name, "reason", p.verdict.reason,
		"selected", p.outcome.selected, "matching", p.outcome.matching, "tainted", p.outcome.tainted, "held", p.outcome.held)
}

// statusOf returns the status of a rule according to its newest plan.
func statusOf(object *v1alpha1.NodeTaintRule, p planned) v1alpha1.NodeTaintRuleStatus {
	plan, verdict, generation := p.outcome, p.verdict, p.object.Generation
	status := *object.Status.DeepCopy()
	status.ObservedGeneration = generation
	status.Selected, status.Matching = int32(plan.selected), int32(plan.matching)
	status.Tainted, status.Held = int32(plan.tainted), int32(plan.held)
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: statusIf(verdict.accepted()),
		Reason: verdict.reason, Message: verdict.message, ObservedGeneration: generation,
	})
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionHolding, Status: statusIf(plan.held > 0),
		Reason: plan.holding(), Message: heldMessage(p), ObservedGeneration: generation,
	})
	return status
}

func statusIf(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// heldMessage explains in sentences why nodes wait.
func heldMessage(p planned) string {
	plan := p.outcome
	var sentences []string
	if waiting := plan.held - plan.refused; waiting > 0 {
		bound := fmt.Sprint(plan.bound)
		if text := p.rule.spec.MaxTainted.String(); text != bound {
			bound = fmt.Sprintf("%d (%s)", plan.bound, text)
		}
		sentences = append(sentences, fmt.Sprintf("%s for taint %s: the rule selects %s and taints at most %s.",
			sentence.Do(waiting, "node", "waits", "wait"), p.rule.text, sentence.Counted(plan.selected, "node"), bound))
	}
	if plan.refused > 0 {
		sentences = append(sentences, fmt.Sprintf("%s cannot get taint %s; Taintkeeper retries every minute. For node %s, the API server says: %s",
			sentence.Counted(plan.refused, "node"), p.rule.text, plan.example, plan.why))
	}
	if len(sentences) == 0 {
		return "No node waits for the taint."
	}
	return strings.Join(sentences, " ")
}

// saysHolding returns what the status of a rule says about nodes that wait, as a reason.
func saysHolding(object *v1alpha1.NodeTaintRule) string {
	if said := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionHolding); said != nil {
		return said.Reason
	}
	return v1alpha1.ReasonNoNodeHeld
}

// saysRefused returns the reason for which the rule is not accepted according to its status, or empty.
func saysRefused(object *v1alpha1.NodeTaintRule) string {
	said := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionAccepted)
	if said == nil || said.Status != metav1.ConditionFalse {
		return ""
	}
	return said.Reason
}

// events writes events on rules, in the background.
type events struct{ *apicall.Recorder }

func newEvents(client kubernetes.Interface) *events {
	return &events{apicall.NewRecorder("taintkeeper", client)}
}

// refused records that a rule is not accepted.
func (e *events) refused(rule *v1alpha1.NodeTaintRule, why ruling) {
	e.Eventf(reference(rule), corev1.EventTypeWarning, why.reason, "%s", why.message)
}

// accepted records that a rule that was not accepted is accepted now.
func (e *events) accepted(rule *v1alpha1.NodeTaintRule, why ruling) {
	e.Eventf(reference(rule), corev1.EventTypeNormal, why.reason, "%s", why.message)
}

// holding records that a rule has begun or ceased to hold nodes back.
func (e *events) holding(p planned) {
	suffix := ""
	if p.rule.onlyReports {
		suffix = v1alpha1.DryRunSuffix
	}
	rule := reference(p.object)
	if p.outcome.held == 0 {
		e.Eventf(rule, corev1.EventTypeNormal, "TaintNoLongerHeld",
			"No node waits for taint %s any longer.%s", p.rule.text, suffix)
		return
	}
	e.Eventf(rule, corev1.EventTypeWarning, "TaintHeld", "%s%s", heldMessage(p), suffix)
}

func reference(rule *v1alpha1.NodeTaintRule) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeTaintRule", Name: rule.Name, UID: rule.UID,
	}
}

// metrics holds what is counted as it happens; ruleCollector reports the rest.
type metrics struct{ retries *prometheus.CounterVec }

// newMetrics makes the metrics and registers them, if there is a registry.
func newMetrics(registry prometheus.Registerer, view *view) (*metrics, error) {
	m := &metrics{retries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "taintkeeper_node_health_retries_total",
		Help: "Failed updates of nodes, which are retried, by the API's reason.",
	}, []string{"reason"})}
	if registry == nil {
		return m, nil
	}
	if err := registry.Register(m.retries); err != nil {
		var known prometheus.AlreadyRegisteredError // node health counts in it, too
		if !errors.As(err, &known) {
			return nil, err
		}
		m.retries = known.ExistingCollector.(*prometheus.CounterVec)
	}
	return m, registry.Register(ruleCollector{view})
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
		counts := map[string]int{"matching": p.outcome.matching, "tainted": p.outcome.tainted, "held": p.outcome.held}
		for state, count := range counts {
			metrics <- prometheus.MustNewConstMetric(ruleNodesDesc, prometheus.GaugeValue, float64(count), p.rule.name, state)
		}
	}
}
