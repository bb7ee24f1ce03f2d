// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// metrics holds what is counted as it happens; zoneCollector reports what is counted at scrape time.
type metrics struct {
	updateNode prometheus.Histogram
	retries    *prometheus.CounterVec
}

// newMetrics makes the metrics. The names that begin with node_collector are upstream's, with its buckets
// (pkg/controller/nodelifecycle/metrics.go). node_collector_update_all_nodes_health_duration_seconds does not exist
// here, because there is no pass over all nodes to measure.
func newMetrics() *metrics {
	return &metrics{
		updateNode: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "node_collector_update_node_health_duration_seconds",
			Help:    "Time in seconds that checking one node takes, including the API calls.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_node_health_retries_total",
			Help: "Failed updates of nodes, which are retried, by the API's reason.",
		}, []string{"reason"}),
	}
}

func (m *metrics) register(registry prometheus.Registerer, records *records, clock *timeline.Clock) error {
	return stage.Register(registry, m.updateNode, m.retries, zoneCollector{records}, echoCollector{records, clock})
}

// zoneCollector reports the zones at scrape time. In upstream's metrics, the label zone has upstream's values. Our own
// have a label for the state as well.
type zoneCollector struct{ records *records }

var (
	zoneHealthDesc = prometheus.NewDesc("node_collector_zone_health",
		"Percentage of ready nodes, by zone, not counting those excluded from disruption checks.", []string{"zone"}, nil)
	zoneSizeDesc = prometheus.NewDesc("node_collector_zone_size",
		"Nodes, by zone, except those excluded from disruption checks.", []string{"zone"}, nil)
	zoneNotReadyDesc = prometheus.NewDesc("node_collector_unhealthy_nodes_in_zone",
		"Nodes that are not ready, by zone, except those excluded from disruption checks.", []string{"zone"}, nil)
	zoneTaintedDesc = prometheus.NewDesc("node_collector_evictions_total",
		"Nodes that were tainted NoExecute with a token of their zone since this process started, by zone.", []string{"zone"}, nil)
	zoneStateDesc = prometheus.NewDesc("taintkeeper_zone_state",
		"1 for the state of the zone: Normal, PartialDisruption or FullDisruption.", []string{"zone", "state"}, nil)
	zoneRateDesc = prometheus.NewDesc("taintkeeper_zone_taint_rate",
		"Nodes of a zone that may be tainted NoExecute per second because they are not ready; 0 while another replica leads.", []string{"zone"}, nil)
	zoneHeldDesc = prometheus.NewDesc("taintkeeper_zone_held_nodes",
		"Nodes that are not ready and whose NoExecute taint their zone holds back.", []string{"zone"}, nil)
)

// Describe implements prometheus.Collector.
func (c zoneCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		zoneHealthDesc, zoneSizeDesc, zoneNotReadyDesc, zoneTaintedDesc, zoneStateDesc, zoneRateDesc, zoneHeldDesc,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c zoneCollector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, at := range c.records.status() {
		gauge(zoneHealthDesc, health(at), at.Key)
		gauge(zoneSizeDesc, float64(at.Size), at.Key)
		gauge(zoneNotReadyDesc, float64(at.NotReady), at.Key)
		metrics <- prometheus.MustNewConstMetric(zoneTaintedDesc, prometheus.CounterValue, float64(at.Tainted), at.Key)
		for _, state := range []readiness.State{readiness.Normal, readiness.PartialDisruption, readiness.FullDisruption} {
			value := 0.0
			if state == at.State {
				value = 1
			}
			gauge(zoneStateDesc, value, at.Name, string(state))
		}
		gauge(zoneRateDesc, float64(at.Rate), at.Name)
		gauge(zoneHeldDesc, float64(at.Held), at.Name)
	}
}

// health returns the percentage of ready nodes; a zone without nodes is healthy.
func health(at readiness.Status) float64 {
	if at.Size == 0 {
		return 100
	}
	return 100 * float64(at.Size-at.NotReady) / float64(at.Size)
}

// echoCollector reports how long ago the renewal of the latest echo began.
type echoCollector struct {
	records *records
	clock   *timeline.Clock
}

var sinceEchoDesc = prometheus.NewDesc("taintkeeper_node_health_seconds_since_echo",
	"Seconds since the beginning of the last renewal of our own Lease that returned on the watch. Above 5, no node is considered silent.", nil, nil)

// Describe implements prometheus.Collector.
func (c echoCollector) Describe(descs chan<- *prometheus.Desc) { descs <- sinceEchoDesc }

// Collect implements prometheus.Collector.
func (c echoCollector) Collect(metrics chan<- prometheus.Metric) {
	since := c.records.sinceEcho(c.clock.Now()).Seconds()
	metrics <- prometheus.MustNewConstMetric(sinceEchoDesc, prometheus.GaugeValue, since)
}

// eventSource is upstream's, letter for letter.
const eventSource = "node-controller"

// events writes events on nodes, on pods and on our own Lease, in the background. The reasons and messages on nodes
// and pods are upstream's (pkg/controller/util/node), except [v1alpha1.EventNodeTaintHeld], which upstream lacks.
type events struct {
	*apicall.Recorder

	lease  string // the name of our own
	suffix string
}

func newEvents(dryRun bool, client kubernetes.Interface) *events {
	suffix := ""
	if dryRun {
		suffix = v1alpha1.DryRunSuffix
	}
	return &events{Recorder: apicall.NewRecorder(eventSource, client), lease: ownLease(dryRun), suffix: suffix}
}

func (e *events) registered(node *corev1.Node) {
	e.Eventf(nodeReference(node), corev1.EventTypeNormal, "RegisteredNode",
		"Node %s event: Registered Node %s in Controller", node.Name, node.Name)
}

func (e *events) removed(node *corev1.Node) {
	e.Eventf(nodeReference(node), corev1.EventTypeNormal, "RemovingNode",
		"Node %s event: Removing Node %s from Controller", node.Name, node.Name)
}

func (e *events) notReady(node *corev1.Node) {
	e.Eventf(nodeReference(node), corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
}

func (e *events) podNotReady(pod *podcache.Pod) {
	reference := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
	}
	e.OfPod(apicall.PodEvent{
		Pod: reference, Node: pod.Node, Type: corev1.EventTypeWarning, Reason: "NodeNotReady",
	}, "Node is not ready")
}

// held records why a node that is not ready has no NoExecute taint.
func (e *events) held(node *corev1.Node, key string, held readiness.Held) {
	e.Eventf(nodeReference(node), corev1.EventTypeWarning, v1alpha1.EventNodeTaintHeld,
		"Taint %s:NoExecute is held back: %s%s", key, held, e.suffix)
}

// blindness records why no node can be considered silent, or, with nil, that nodes can be again.
func (e *events) blindness(why error) {
	lease := &corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: corev1.NamespaceNodeLease, Name: e.lease}
	if why == nil {
		e.Eventf(lease, corev1.EventTypeNormal, v1alpha1.EventSilenceKnown, "Node health is no longer blind: its own Lease renewals arrive on the watch again%s", e.suffix)
		return
	}
	e.Eventf(lease, corev1.EventTypeWarning, v1alpha1.EventSilenceUnknown, "%v%s", why, e.suffix)
}

func nodeReference(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}
