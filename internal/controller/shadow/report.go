// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreconfig "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/klog/v2"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
)

const (
	// mostDifferences is how many differences the report keeps, the newest. With the longest names they take less than
	// half of the 1 MiB that a ConfigMap may have.
	mostDifferences = 200
	// eventEvery is how often there is an event of one kind on one node.
	eventEvery = time.Hour
	// writeEvery is how often a report that has changed is written, and writeLimit how long one write may take.
	writeEvery = 10 * time.Second
	writeLimit = 10 * time.Second
)

// count counts a pod, once, when it is certain what happened to it.
func (c *Comparison) count(e *expected, outcome v1alpha1.ShadowOutcome) {
	if !e.counted {
		e.counted = true
		c.counts[outcome]++
	}
}

// takeBack removes the difference of a pod, because it was wrong, or a newer one follows.
func (c *Comparison) takeBack(uid types.UID) {
	c.differences = slices.DeleteFunc(c.differences, func(d v1alpha1.ShadowDifference) bool { return d.UID == uid })
}

// report reports a difference in the log, in the report, where it replaces an earlier one of the same pod, and with an
// event on the node once per kind and hour.
func (c *Comparison) report(e *expected, outcome v1alpha1.ShadowOutcome, why string, now time.Time) {
	shown := c.config.Clock.Shown
	d := v1alpha1.ShadowDifference{
		Outcome: outcome, Namespace: e.pod.Namespace, Pod: e.pod.Name, UID: e.pod.UID, Node: e.pod.Node,
		Time: metav1.NewTime(shown(now)), Sentence: what(e, outcome, now) + ": " + why,
	}
	if !e.due.IsZero() {
		d.Due = &metav1.MicroTime{Time: shown(e.due)}
	}
	if !e.deleted.IsZero() {
		d.Evicted = &metav1.MicroTime{Time: shown(e.deleted)}
	}
	if d.Due != nil && d.Evicted != nil {
		d.Seconds = new(e.deleted.Sub(e.due).Seconds())
	}
	c.takeBack(d.UID)
	c.differences = append(c.differences, d)
	c.differences = slices.Delete(c.differences, 0, max(len(c.differences)-mostDifferences, 0))
	c.config.Logger.Info("The built-in controller's eviction differs from what taints and tolerations require",
		"outcome", string(d.Outcome), "pod", klog.KRef(d.Namespace, d.Pod), "node", d.Node,
		"due", d.Due, "evicted", d.Evicted, "explanation", d.Sentence)
	maps.DeleteFunc(c.announced, func(_ string, last time.Time) bool { return now.Sub(last) >= eventEvery })
	kind := outcome.EventReason() + " " + d.Node
	if _, ok := c.announced[kind]; ok {
		return
	}
	c.announced[kind] = now
	c.events.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: d.Node, UID: types.UID(d.Node)},
		corev1.EventTypeWarning, outcome.EventReason(),
		"%s", v1alpha1.ShadowText(fmt.Sprintf("Pod %s/%s: %s.", d.Namespace, d.Pod, d.Sentence)))
}

// what says what happened to the pod.
func what(e *expected, outcome v1alpha1.ShadowOutcome, now time.Time) string {
	switch {
	case outcome == v1alpha1.ShadowStayed:
		return "evicted, but should have stayed"
	case outcome == v1alpha1.ShadowTwice:
		return "evicted a second time"
	case e.deleted.IsZero():
		return fmt.Sprintf("still there %s after it was due", duration(now.Sub(e.due)))
	case e.deleted.Before(e.due):
		return "evicted " + duration(e.due.Sub(e.deleted)) + " early"
	case e.unsure:
		return "evicted at least " + duration(e.deleted.Sub(e.due)) + " late"
	}
	return "evicted " + duration(e.deleted.Sub(e.due)) + " late"
}

// Report returns the result of the comparison so far.
func (c *Comparison) Report() *v1alpha1.ShadowReport {
	now := c.config.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	report := &v1alpha1.ShadowReport{
		Time: metav1.NewTime(c.config.Clock.Shown(now)), Pods: map[v1alpha1.ShadowOutcome]int{},
		Overdue: c.overdue, Pending: c.pending(now),
		Differences: append([]v1alpha1.ShadowDifference{}, c.differences...), // never null in JSON
	}
	if !c.began.IsZero() {
		report.Since = metav1.NewTime(c.config.Clock.Shown(c.began))
	}
	for _, known := range v1alpha1.ShadowOutcomes {
		report.Pods[known.Outcome] = c.counts[known.Outcome]
	}
	slices.Reverse(report.Differences)
	return report
}

// pending counts the pods that must leave later.
func (c *Comparison) pending(now time.Time) (pods int) {
	for _, all := range c.byNode {
		for _, e := range all {
			if e.leaves && e.deleted.IsZero() && e.due.After(now) {
				pods++
			}
		}
	}
	return pods
}

// publish keeps the ConfigMap with the report current until the context ends, and writes it once more then. It logs an
// error when it begins, or when another takes its place.
func (c *Comparison) publish(ctx context.Context) error {
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	written, failure := &v1alpha1.ShadowReport{}, ""
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		c.forgetPredecessors(c.config.Clock.Now())
		report := c.Report()
		if report.Since.IsZero() || ctx.Err() == nil && !isNews(report, written) {
			continue
		}
		err := c.write(ctx, report)
		if err == nil {
			written, failure = report, ""
		} else if reason := apicall.Reason(err); reason != failure {
			failure = reason
			c.config.Logger.Info("Cannot write the report of shadow mode; will retry",
				"configMap", klog.KRef(c.config.Namespace, v1alpha1.ShadowConfigMap), "reason", err.Error())
		}
	}
	return nil
}

// isNews reports whether a report says something other than the one before, or is the next sign of life.
func isNews(report, before *v1alpha1.ShadowReport) bool {
	same := *before
	same.Time, same.TypeMeta = report.Time, report.TypeMeta
	return report.Time.Sub(before.Time.Time) >= v1alpha1.ShadowReportEvery || !equality.Semantic.DeepEqual(&same, report)
}

// write writes the report. A call that has begun ends although the context does.
func (c *Comparison) write(ctx context.Context, report *v1alpha1.ShadowReport) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	data, err := report.Data()
	if err != nil {
		return err
	}
	configMap := coreconfig.ConfigMap(v1alpha1.ShadowConfigMap, c.config.Namespace).
		WithLabels(map[string]string{v1alpha1.NameLabel: v1alpha1.Name}).WithData(data)
	_, err = c.config.Client.CoreV1().ConfigMaps(c.config.Namespace).
		Apply(ctx, configMap, metav1.ApplyOptions{FieldManager: v1alpha1.Name, Force: true})
	return err
}

const podsHelp = "Pods that the built-in taint eviction evicted or should have evicted, by outcome compared with what taints and tolerations require: on_time, early, late, never, should_have_stayed, twice, unjudged (the countdown began unseen, the node is gone, or a watch was interrupted)."

func newLateness() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "taintkeeper_shadow_difference_seconds",
		Help:    "Time in seconds from when a pod was due until the built-in controller evicted it, negative if it was early.",
		Buckets: []float64{-300, -60, -30, -10, -5, -2, -1, 0, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800},
	})
}

// register registers the metrics. What the report has too is counted at scrape time.
func (c *Comparison) register() error {
	locked := func(value func() int) func() float64 {
		return func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(value())
		}
	}
	collectors := []prometheus.Collector{
		c.lateness,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "taintkeeper_shadow_overdue_pods",
			Help: "Pods that must leave their node because of its taints and that the built-in controller has not evicted yet.",
		}, locked(func() int { return c.overdue })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "taintkeeper_shadow_pending_pods",
			Help: "Pods that must leave later because of taints.",
		}, locked(func() int { return c.pending(c.config.Clock.Now()) })),
	}
	for _, known := range v1alpha1.ShadowOutcomes {
		collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "taintkeeper_shadow_pods_total",
			Help:        podsHelp,
			ConstLabels: prometheus.Labels{"outcome": string(known.Outcome)},
		}, locked(func() int { return c.counts[known.Outcome] })))
	}
	return stage.Register(c.config.Registerer, collectors...)
}
