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
	backlog      []prometheus.Collector
}

func newMetrics(account *Account) *metrics {
	m := &metrics{
		renewed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "taintkeeper_eviction_clock_renewed_timestamp_seconds",
			Help: "When this process last renewed the eviction clock, in seconds since 1970; 0 if it never did.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_eviction_clock_renewals_total",
			Help: "Attempts to renew the eviction clock, by result: renewed, not_renewed (this process cannot evict now, or the API server did not accept the renewal).",
		}, []string{"result"}),
		foreignMarks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_foreign_marks_total",
			Help: "Pods that kube-controller-manager marked for eviction, by whether the eviction clock was fresh (the admission policy should have refused the mark) or stale.",
		}, []string{"clock"}),
		backlog: backlogGauges(account),
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
	for _, collector := range append([]prometheus.Collector{m.renewed, m.renewals, m.foreignMarks}, m.backlog...) {
		if err := registerer.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// backlogGauges are read from the Account when they are scraped.
func backlogGauges(account *Account) []prometheus.Collector {
	gauge := func(name, help string, value func(Backlog) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return value(account.Backlog())
		})
	}
	return []prometheus.Collector{
		gauge("taintkeeper_built_in_backlog_until_timestamp_seconds",
			"When the admission policy stops refusing the remaining evictions of kube-controller-manager, in seconds since 1970, as known to this process; 0 if none remain.",
			func(b Backlog) float64 {
				if b.Until.IsZero() {
					return 0
				}
				return float64(b.Until.Unix())
			}),
		gauge("taintkeeper_built_in_backlog_evictions",
			"Upper bound on the number of evictions that kube-controller-manager has begun and may still try, as known to this process.",
			func(b Backlog) float64 { return float64(b.Evictions) }),
		gauge("taintkeeper_spared_nodes",
			"Nodes with pods that were due and now stay, on which kube-controller-manager may not evict until its backlog is over, as known to this process; -1 if all nodes count as spared.",
			func(b Backlog) float64 {
				if b.AllSpared {
					return -1
				}
				return float64(len(b.Spared))
			}),
	}
}
