// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"github.com/prometheus/client_golang/prometheus"

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
	all := []prometheus.Collector{m.updateNode, m.retries, zoneCollector{records}, echoCollector{records, clock}}
	for _, collector := range all {
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
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
