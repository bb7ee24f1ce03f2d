// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The kind of the report that is served as JSON.
const (
	reportAPIVersion = "taintkeeper.dev/v1alpha1"
	reportKind       = "ShadowReport"
)

// mostDifferences is how many differences the report keeps. The newest are kept.
const mostDifferences = 1000

// Report is the result of the comparison. Its JSON is documented in docs/shadow-mode.md.
type Report struct {
	metav1.TypeMeta `json:",inline"`

	// Since is when the comparison began. What happened before is not judged.
	Since *metav1.Time `json:"since,omitempty"`
	// Time is when the report was made.
	Time metav1.Time `json:"time"`
	// Pods counts the pods that were judged, by outcome.
	Pods map[Outcome]int `json:"pods"`
	// Overdue is how many pods are due and still exist.
	Overdue int `json:"overdue"`
	// Pending is how many pods must leave later.
	Pending int `json:"pending"`
	// Differences has the last thousand, newest first.
	Differences []Difference `json:"differences"`
}

// Difference is a pod with which the built-in did something other than what the rule says.
type Difference struct {
	Outcome   Outcome   `json:"outcome"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       types.UID `json:"uid"`
	Node      string    `json:"node"`
	// Time is when the difference was found, or when the report about the pod was last corrected.
	Time metav1.Time `json:"time"`
	// Due is when the pod had to leave, if it had to.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// Evicted is when the built-in deleted it, if it has.
	Evicted *metav1.MicroTime `json:"evicted,omitempty"`
	// Seconds is how long after Due the eviction was; negative if it was before.
	Seconds *float64 `json:"seconds,omitempty"`
	// Sentence says what happened and why.
	Sentence string `json:"sentence"`
}

// report collects what the comparison reports. It is safe for concurrent use.
type report struct {
	metrics *metrics

	mu          sync.Mutex
	pods        map[Outcome]int
	differences []Difference // oldest first
}

func newReport() *report {
	return &report{metrics: newMetrics(), pods: map[Outcome]int{}}
}

// count counts a pod once it is certain what happened to it.
func (r *report) count(outcome Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[outcome]++
	r.metrics.pods.WithLabelValues(string(outcome)).Inc()
}

// observe records by how much an eviction differed from the rule.
func (r *report) observe(difference time.Duration) {
	r.metrics.difference.Observe(difference.Seconds())
}

// add adds a difference, and replaces an earlier one of the same pod.
func (r *report) add(d Difference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(d.UID)
	r.differences = append(r.differences, d)
	if surplus := len(r.differences) - mostDifferences; surplus > 0 {
		r.differences = slices.Delete(r.differences, 0, surplus)
	}
}

// takeBack removes the difference of a pod, because it was wrong.
func (r *report) takeBack(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(uid)
}

func (r *report) drop(uid types.UID) {
	r.differences = slices.DeleteFunc(r.differences, func(said Difference) bool { return said.UID == uid })
}

// fill fills in the collected numbers and differences.
func (r *report) fill(to *Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to.Pods = map[Outcome]int{}
	for _, outcome := range outcomes {
		to.Pods[outcome] = r.pods[outcome]
	}
	// Never nil, which would be null in JSON, not a list.
	to.Differences = append([]Difference{}, r.differences...)
	slices.Reverse(to.Differences)
}

// difference describes a promise that was not kept.
func (ps *promises) difference(p *promise, outcome Outcome, why string, at time.Time) Difference {
	d := Difference{
		Outcome: outcome, Namespace: p.pod.Namespace, Pod: p.pod.Name, UID: p.pod.UID, Node: p.pod.Node,
		Time: metav1.NewTime(ps.clock.Shown(at)), Sentence: what(p, outcome, at) + ": " + why,
	}
	if !p.due.IsZero() {
		d.Due = &metav1.MicroTime{Time: ps.clock.Shown(p.due)}
	}
	if !p.left.IsZero() {
		d.Evicted = &metav1.MicroTime{Time: ps.clock.Shown(p.left)}
	}
	if d.Due != nil && d.Evicted != nil {
		d.Seconds = new(p.left.Sub(p.due).Seconds())
	}
	return d
}

// what says what happened to the pod.
func what(p *promise, outcome Outcome, at time.Time) string {
	switch {
	case outcome == Stayed:
		return "evicted, but should have stayed"
	case outcome == Twice:
		return "evicted a second time"
	case p.left.IsZero():
		return fmt.Sprintf("still there %s after it was due", duration(at.Sub(p.due)))
	case p.left.Before(p.due):
		return "evicted " + duration(p.due.Sub(p.left)) + " early"
	case p.unsure:
		return "evicted at least " + duration(p.left.Sub(p.due)) + " late"
	}
	return "evicted " + duration(p.left.Sub(p.due)) + " late"
}

// metrics are what is counted as it happens.
type metrics struct {
	pods       *prometheus.CounterVec
	difference prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		pods: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_shadow_pods_total",
			Help: "Pods that the built-in taint eviction evicted or should have evicted, by outcome compared with what taints and tolerations require: on_time, early, late, never, should_have_stayed, twice, unjudged (the countdown began unseen, the node is gone, or a watch was interrupted).",
		}, []string{"outcome"}),
		difference: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "taintkeeper_shadow_difference_seconds",
			Help:    "Time in seconds from when a pod was due until the built-in evicted it, negative if it was early.",
			Buckets: []float64{-300, -60, -30, -10, -5, -2, -1, 0, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800},
		}),
	}
	for _, outcome := range outcomes {
		m.pods.WithLabelValues(string(outcome))
	}
	return m
}

// register registers the metrics, and gauges of pending and due pods that are counted at scrape time.
func (m *metrics) register(registerer prometheus.Registerer, backlog func() (overdue, pending int)) error {
	for _, collector := range []prometheus.Collector{
		m.pods, m.difference,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "taintkeeper_shadow_overdue_pods",
			Help: "Pods that must leave their node because of its taints and that the built-in has not evicted yet.",
		}, func() float64 { overdue, _ := backlog(); return float64(overdue) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "taintkeeper_shadow_pending_pods",
			Help: "Pods that must leave later because of taints.",
		}, func() float64 { _, pending := backlog(); return float64(pending) }),
	} {
		if err := registerer.Register(collector); err != nil {
			return err
		}
	}
	return nil
}
