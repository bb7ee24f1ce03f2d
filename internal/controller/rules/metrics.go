// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

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
