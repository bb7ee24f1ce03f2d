// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// family gathers one metric, or nil when it is not there.
func family(t *testing.T, from prometheus.Gatherer, name string) *dto.MetricFamily {
	t.Helper()
	families, err := from.Gather()
	await.Must(t, err)
	at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	if at < 0 {
		return nil
	}
	return families[at]
}

func gauge(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	found := family(t, from, name)
	if found == nil || found.GetType() != dto.MetricType_GAUGE {
		t.Fatalf("there is no gauge %s", name)
	}
	return found.GetMetric()[0].GetGauge().GetValue()
}

// counters returns the values of a counter by its only label's value, or by "" without a label.
func counters(t *testing.T, from prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	found := family(t, from, name)
	if found.GetMetric() != nil && found.GetType() != dto.MetricType_COUNTER {
		t.Fatalf("%s is a %v", name, found.GetType())
	}
	for _, metric := range found.GetMetric() {
		label := ""
		for _, pair := range metric.GetLabel() {
			label = pair.GetValue()
		}
		values[label] = metric.GetCounter().GetValue()
	}
	return values
}

func histogram(t *testing.T, from prometheus.Gatherer, name string) *dto.Histogram {
	t.Helper()
	found := family(t, from, name)
	if found == nil || found.GetType() != dto.MetricType_HISTOGRAM {
		t.Fatalf("there is no histogram %s", name)
	}
	return found.GetMetric()[0].GetHistogram()
}

func TestMetricsTellWhatIsAheadAndWhatWasDone(t *testing.T) {
	s := newScene(t)
	node, other := s.node(t, "tainted"), s.node(t, "other")
	faults := &proxy.Faults{}
	e := alone(t, faults)
	for _, name := range []string{"taintkeeper_pending_evictions", "taintkeeper_due_evictions", "taintkeeper_tainted_nodes"} {
		if ahead := gauge(t, e.metrics, name); ahead != 0 {
			t.Errorf("%s is %v before anything is tainted", name, ahead)
		}
	}
	if next := family(t, e.metrics, "taintkeeper_next_eviction_seconds"); next != nil {
		t.Errorf("nothing is next, but there is %v", next)
	}

	faults.During(t, proxy.PodDeletes(s.Namespace), (&proxy.Refusing{Times: 2, With: proxy.Failing}).Answer)
	const seconds = 4
	first := s.pod(t, "first", node, rig.Tolerating("gone", seconds))
	second := s.pod(t, "second", node, rig.Tolerating("gone", 600))
	came := taint(t, node, rig.NoExecute("gone"))
	waitPending(t, e.metrics, 2)
	if tainted := gauge(t, e.metrics, "taintkeeper_tainted_nodes"); tainted != 1 {
		t.Errorf("%v nodes are tainted, want 1", tainted)
	}
	if next := gauge(t, e.metrics, "taintkeeper_next_eviction_seconds"); next <= 0 || next > seconds {
		t.Errorf("the next eviction is %v seconds away, want more than 0 and at most %d", next, seconds)
	}

	leaves(t, first, promised(t, first, tainting{rig.NoExecute("gone"), came}))
	untaint(t, node, "gone")
	waitPending(t, e.metrics, 0)
	remains(t, second)

	// One more, whose delete is put off until its node is untainted.
	third := s.pod(t, "third", other)
	faults.During(t, proxy.PodStatusPatches(s.Namespace), (&proxy.Refusing{Times: 1, With: proxy.BusyFor(2 * time.Second)}).Answer)
	taint(t, other, rig.NoExecute("gone"))
	waitRetried(t, e.metrics, "TooManyRequests")
	if due := gauge(t, e.metrics, "taintkeeper_due_evictions"); due != 1 {
		t.Errorf("%v evictions are due, want 1", due)
	}
	untaint(t, other, "gone")
	waitEvictions(t, e.metrics, "cancelled", 1)
	stays(t, third)

	checkCounters(t, e.metrics, "taintkeeper_evictions_total", map[string]float64{"deleted": 1, "gone": 0, "replaced": 0, "cancelled": 1, "dry_run": 0})
	if retries := counters(t, e.metrics, "taintkeeper_retries_total"); retries["InternalError"] != 2 || retries["TooManyRequests"] < 1 {
		t.Errorf("retries %v, want 2 for an InternalError and at least 1 for TooManyRequests", retries)
	}
	most := stall.Bound + cluster.Stalls().In(came.From, time.Now())
	checkUpstreamMetrics(t, e.metrics, most)
	checkLateness(t, histogram(t, e.metrics, "taintkeeper_eviction_lateness_seconds"), most)
}

// checkUpstreamMetrics checks the two metrics that upstream has, after one eviction.
func checkUpstreamMetrics(t *testing.T, from prometheus.Gatherer, most time.Duration) {
	t.Helper()
	checkCounters(t, from, "taint_eviction_controller_pod_deletions_total", map[string]float64{"": 1})
	duration := histogram(t, from, "taint_eviction_controller_pod_deletion_duration_seconds")
	var bounds []float64
	for _, bucket := range duration.GetBucket() {
		if !(bucket.GetUpperBound() > 1e300) {
			bounds = append(bounds, bucket.GetUpperBound())
		}
	}
	if want := []float64{.005, .025, .1, .5, 1, 2.5, 10, 30, 60, 120, 180, 240}; !slices.Equal(bounds, want) {
		t.Errorf("buckets %v, want %v", bounds, want)
	}
	checkLateness(t, duration, most)
}

// checkLateness checks that one eviction took a plausible time: at least two retries, 300 ms less a fifth.
func checkLateness(t *testing.T, observed *dto.Histogram, most time.Duration) {
	t.Helper()
	const retried = 0.24
	if sum := observed.GetSampleSum(); observed.GetSampleCount() != 1 || sum < retried || sum > most.Seconds() {
		t.Errorf("%d samples, %v seconds in all; want one between %v and %v", observed.GetSampleCount(), sum, retried, most.Seconds())
	}
}

func checkCounters(t *testing.T, from prometheus.Gatherer, name string, want map[string]float64) {
	t.Helper()
	got := counters(t, from, name)
	if fmt.Sprint(got) != fmt.Sprint(want) { // maps are printed in order
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

func waitPending(t *testing.T, from prometheus.Gatherer, want float64) {
	t.Helper()
	waitValue(t, fmt.Sprintf("%v evictions are pending", want), want, func() float64 {
		return gauge(t, from, "taintkeeper_pending_evictions")
	})
}

// waitEvictions waits until the given number of evictions have had a result.
func waitEvictions(t *testing.T, from prometheus.Gatherer, result string, want float64) {
	t.Helper()
	waitValue(t, fmt.Sprintf("%v evictions ended as %s", want, result), want, func() float64 {
		return counters(t, from, "taintkeeper_evictions_total")[result]
	})
}

func waitRetried(t *testing.T, from prometheus.Gatherer, reason string) {
	t.Helper()
	await.Eventually(t, "something is tried again because of "+reason, func(context.Context) error {
		if retries := counters(t, from, "taintkeeper_retries_total"); retries[reason] == 0 {
			return fmt.Errorf("retries %v", retries)
		}
		return nil
	})
}

func waitValue(t *testing.T, what string, want float64, get func() float64) {
	t.Helper()
	await.Eventually(t, what, func(context.Context) error {
		if got := get(); got != want {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}
