// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import "github.com/prometheus/client_golang/prometheus"

// Values of labels.
const (
	renewalDone    = "renewed"
	renewalNotDone = "not_renewed"
	clockFresh     = "fresh"
	clockStale     = "stale"
)

type metrics struct {
	renewed      prometheus.Gauge
	renewals     *prometheus.CounterVec
	foreignMarks *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		renewed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "taintkeeper_eviction_clock_renewed_timestamp_seconds",
			Help: "When this process last renewed the eviction clock, in seconds since 1970; 0 if it never did.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_eviction_clock_renewals_total",
			Help: "Turns at renewing the eviction clock, by result: renewed, not_renewed (this process cannot evict now, or the API server did not take it).",
		}, []string{"result"}),
		foreignMarks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_foreign_marks_total",
			Help: "Pods that kube-controller-manager marked for eviction, by whether the eviction clock was fresh (the admission policy should have refused it) or stale.",
		}, []string{"clock"}),
	}
	for _, result := range []string{renewalDone, renewalNotDone} {
		m.renewals.WithLabelValues(result)
	}
	for _, clock := range []string{clockFresh, clockStale} {
		m.foreignMarks.WithLabelValues(clock)
	}
	return m
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	for _, collector := range []prometheus.Collector{m.renewed, m.renewals, m.foreignMarks} {
		if err := registerer.Register(collector); err != nil {
			return err
		}
	}
	return nil
}
