// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// result is how the eviction of a pod ended.
type result string

const (
	resultDeleted   result = "deleted"   // deleted by us
	resultGone      result = "gone"      // already gone or terminating
	resultReplaced  result = "replaced"  // another pod has its name
	resultCancelled result = "cancelled" // the pod need no longer leave
	resultDryRun    result = "dry_run"   // would have been deleted
	resultHeld      result = "held"      // by a policy, for now; not counted, because the eviction has not ended
)

// metrics holds what is counted as it happens; backlogCollector reports what is counted at scrape time.
type metrics struct {
	upstreamDeletions prometheus.Counter
	upstreamDuration  prometheus.Histogram
	evictions         *prometheus.CounterVec
	lateness          prometheus.Histogram
	retries           *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		upstreamDeletions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "taint_eviction_controller_pod_deletions_total",
			Help: "Total number of Pods deleted by TaintEvictionController since its start.",
		}),
		upstreamDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "taint_eviction_controller_pod_deletion_duration_seconds",
			Help:    "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_evictions_total",
			Help: "Evictions that ended, by result: deleted, gone (already gone or terminating), replaced (another pod has its name), cancelled (the pod may stay), dry_run.",
		}, []string{"result"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "taintkeeper_eviction_lateness_seconds",
			Help:    "Time in seconds from when a pod was due until the API server accepted its delete.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_retries_total",
			Help: "Failed attempts to evict pods, to write timeAdded or to add a toleration, which are retried, by reason: the API's reason, Unreachable, " +
				"Unconfirmed (the live node or pod differs from the cached one), " +
				"NotRecorded (the built-in controller's backlog could not be recorded) or Aborted (canceled because too many calls hung).",
		}, []string{"reason"}),
	}
	for _, known := range []result{resultDeleted, resultGone, resultReplaced, resultCancelled, resultDryRun} {
		m.evictions.WithLabelValues(string(known))
	}
	return m
}

func (m *metrics) deleted(lateness time.Duration) {
	m.upstreamDeletions.Inc()
	m.upstreamDuration.Observe(lateness.Seconds())
	m.lateness.Observe(lateness.Seconds())
}

func (m *metrics) register(registerer prometheus.Registerer, ahead backlogCollector) error {
	return stage.Register(registerer, m.upstreamDeletions, m.upstreamDuration, m.evictions, m.lateness, m.retries, ahead)
}

// backlogCollector reports pending and due evictions, counted at scrape time, because a gauge that is kept in step by
// hand drifts.
type backlogCollector struct{ *decider }

var (
	pendingDesc = prometheus.NewDesc("taintkeeper_pending_evictions",
		"Pods whose eviction is due in the future.", nil, nil)
	dueDesc = prometheus.NewDesc("taintkeeper_due_evictions",
		"Pods that are due to leave their node and whose delete the API server has not accepted yet.", nil, nil)
	overdueDesc = prometheus.NewDesc("taintkeeper_overdue_seconds",
		"Age in seconds of the oldest due eviction that the API server has not accepted; 0 if there is none.", nil, nil)
	nextDesc = prometheus.NewDesc("taintkeeper_next_eviction_seconds",
		"Seconds until the next pending eviction; absent if none is pending.", nil, nil)
	refusedDesc = prometheus.NewDesc("taintkeeper_refused_evictions",
		"Pods that are due to leave their node and whose last eviction was refused, by what refused it: "+
			"webhook NAME, policy NAME, or the API's reason.", []string{"by"}, nil)
	heldDesc = prometheus.NewDesc("taintkeeper_held_pods",
		"Pods that are due to leave their node and held by an EvictionPolicy, by policy and reason. They do not count as due or overdue.",
		[]string{"policy", "reason"}, nil)
	knownDesc = prometheus.NewDesc("taintkeeper_policies_known",
		"1 if all EvictionPolicies are known or the resource is not installed; 0 while they cannot be watched, and no pod is evicted.",
		nil, nil)
	offsetDesc = prometheus.NewDesc("taintkeeper_clock_offset_seconds",
		"Smallest possible lead of the API server's clock over this machine's, negative if it is behind; "+
			"0 if they agree to the second. After a restart, evictions can be late by that much.", nil, nil)
	taintedDesc = prometheus.NewDesc("taintkeeper_tainted_nodes",
		"Nodes with a NoExecute taint.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c backlogCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		pendingDesc, nextDesc, dueDesc, overdueDesc, heldDesc, knownDesc, refusedDesc, offsetDesc, taintedDesc,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c backlogCollector) Collect(metrics chan<- prometheus.Metric) {
	ahead, at := c.queue.stats()
	gauge := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	tainted := 0
	for _, node := range c.nodes.All() {
		if len(node.NoExecute) > 0 {
			tainted++
		}
	}
	gauge(pendingDesc, float64(ahead.Pending))
	gauge(dueDesc, float64(ahead.Due))
	gauge(overdueDesc, ahead.Overdue(at).Seconds())
	gauge(taintedDesc, float64(tainted))
	gauge(offsetDesc, c.clock.Offset().Seconds())
	for by, count := range ahead.Refused {
		metrics <- prometheus.MustNewConstMetric(refusedDesc, prometheus.GaugeValue, float64(count), by)
	}
	for by, count := range c.objections() {
		metrics <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(count), by.policy, string(by.why))
	}
	switch {
	case c.policies == nil:
	case c.policies.Known():
		gauge(knownDesc, 1)
	default:
		gauge(knownDesc, 0)
	}
	if ahead.Pending > 0 {
		gauge(nextDesc, ahead.Next.Sub(at).Seconds())
	}
}

// events writes events on pods, in the background. Unlike upstream's they carry the pod's UID, so that kubectl describe
// pod shows them, the node as their related object, and as their action which taint makes the pod due, and when.
type events struct {
	*apicall.Recorder

	clock  *timeline.Clock
	suffix string
}

func newEvents(mode Mode, client kubernetes.Interface, clock *timeline.Clock) *events {
	e := &events{Recorder: apicall.NewRecorder(v1alpha1.EventSourceOfEvictions, client), clock: clock}
	if mode == DryRun {
		e.suffix = v1alpha1.DryRunSuffix
	}
	return e
}

// evicts is the action of an event about an eviction. If the pod need not leave, it has neither taint nor instant.
func (e *events) evicts(v verdict.Verdict) v1alpha1.EventAction {
	if !v.Leaves {
		return v1alpha1.EventAction{}
	}
	return v1alpha1.EventAction{Due: e.clock.Shown(v.Due), Taint: taints.Format(v.Taint.Taint)}
}

func (e *events) of(pod *podcache.Pod, action v1alpha1.EventAction, kind, reason string) apicall.PodEvent {
	return apicall.PodEvent{
		Pod: reference(pod), Node: pod.Node, Action: action.String(), Type: kind, Reason: reason,
	}
}

func (e *events) marking(pod *podcache.Pod, v verdict.Verdict) {
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeNormal, v1alpha1.EventEviction),
		v1alpha1.MarkingText+"%s%s", pod.Key(), e.suffix)
}

// cancelled records that a pod stays that was due at an instant, or would have been.
func (e *events) cancelled(pod *podcache.Pod, due time.Time) {
	action := v1alpha1.EventAction{Cancels: true, Due: e.clock.Shown(due)}
	e.OfPod(e.of(pod, action, corev1.EventTypeNormal, v1alpha1.EventEviction),
		v1alpha1.CancellingText+"%s%s", pod.Key(), e.suffix)
}

// unmarked records that a pod was deleted without the condition DisruptionTarget.
func (e *events) unmarked(pod *podcache.Pod, v verdict.Verdict, err error) {
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeWarning, v1alpha1.EventUnmarkedEviction),
		"Deleted Pod %s without the DisruptionTarget condition, which could not be set: %v", pod.Key(), err)
}

// refused records that a due pod stays, and what refuses its eviction.
func (e *events) refused(pod *podcache.Pod, v verdict.Verdict, err error) {
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeWarning, v1alpha1.EventEvictionRefused),
		"Eviction of Pod %s is refused (%s), and retried at least every %s: %v",
		pod.Key(), refuser(err), apicall.LastRefused, err)
}

// held records that a due pod stays because a policy objects.
func (e *events) held(pod *podcache.Pod, v verdict.Verdict, answer policy.Answer) {
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeNormal, v1alpha1.EventEvictionHeld),
		"Pod %s is due to leave, but stays: %s%s", pod.Key(), answer, e.suffix)
}

// keptAlive records that a due pod that stays got tolerations.
func (e *events) keptAlive(pod *podcache.Pod, v verdict.Verdict, lacked []corev1.Taint) {
	names := make([]string, len(lacked))
	for i := range lacked {
		names[i] = taints.Format(lacked[i])
	}
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeNormal, v1alpha1.EventKeptAlive),
		"Pod %s is due to leave, but stays: added a toleration for %s of 0 seconds, so that the Pod stays alive if its kubelet restarts",
		pod.Key(), strings.Join(names, " and "))
}

func reference(pod *podcache.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
