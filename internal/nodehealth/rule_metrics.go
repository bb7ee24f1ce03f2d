// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import "github.com/prometheus/client_golang/prometheus"

// ruleCollector says what the rules do when it is asked.
type ruleCollector struct{ book *rulebook }

var ruleNodesDesc = prometheus.NewDesc("taintkeeper_rule_nodes",
	"Nodes by NodeTaintRule: matching have its condition, tainted have its taint (in a dry run: would have it), held wait, because of maxTainted or because the API server refuses it.",
	[]string{"rule", "state"}, nil)

// Describe implements prometheus.Collector.
func (c ruleCollector) Describe(descs chan<- *prometheus.Desc) { descs <- ruleNodesDesc }

// Collect implements prometheus.Collector.
func (c ruleCollector) Collect(metrics chan<- prometheus.Metric) {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	for name, known := range c.book.planned {
		for state, count := range map[string]int{"matching": known.plan.matching, "tainted": known.plan.tainted, "held": known.plan.held} {
			metrics <- prometheus.MustNewConstMetric(ruleNodesDesc, prometheus.GaugeValue, float64(count), name, state)
		}
	}
}
