// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// samples returns how many evictions the duration histogram knows, how many of them are in a bucket with a finite
// bound, and their sum.
func samples(t *testing.T, from prometheus.Gatherer) (all, withinBuckets uint64, sum float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "taint_eviction_controller_pod_deletion_duration_seconds" {
			continue
		}
		histogram := family.GetMetric()[0].GetHistogram()
		for _, bucket := range histogram.GetBucket() {
			if bucket.GetUpperBound() < 1e6 {
				withinBuckets = max(withinBuckets, bucket.GetCumulativeCount())
			}
		}
		return histogram.GetSampleCount(), withinBuckets, histogram.GetSampleSum()
	}
	return 0, 0, 0
}

func TestAnEvictionThatTakesASecondIsASecondInOurHistogramAndInNoBucketOfUpstreams(t *testing.T) { // 5
	registry := prometheus.NewRegistry()
	measured := func(ctx context.Context, client *fake.Clientset) error {
		return runEvictor(ctx, eviction.Config{Client: client, Registerer: registry})
	}
	play(t, crowd(1), slow(measured, sec))
	if all, within, sum := samples(t, registry); all != 1 || within != 1 || sum != 1 {
		t.Errorf("ours observed %d evictions, %d of them in a bucket with a finite bound, %v seconds in all; want 1, 1 and 1", all, within, sum)
	}

	allBefore, withinBefore, sumBefore := samples(t, legacyregistry.DefaultGatherer)
	play(t, crowd(1), slow(upstream, sec))
	all, within, sum := samples(t, legacyregistry.DefaultGatherer)
	if all != allBefore+1 || within != withinBefore || sum-sumBefore != 1e18 {
		t.Errorf("upstream observed %d evictions, %d of them in a bucket with a finite bound, %v seconds; its defect is 1, 0 and 1e18",
			all-allBefore, within-withinBefore, sum-sumBefore)
	}
}

func TestAGtThatIsNotAnIntegerIsLoggedByUpstreamAtEachEvaluationAndNeverByOurs(t *testing.T) { // 16
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TaintTolerationComparisonOperators, true)
	h := crowd(1, step{4200 * ms, tainted("b")})
	h.Pods[0].Grace = 30
	h.Pods[0].Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpGt, Value: "junk"}}
	var errors atomic.Int32
	logger := funcr.New(func(_, _ string) {
		errors.Add(1)
	}, funcr.Options{Verbosity: -1})
	logging := func(ctx context.Context, client *fake.Clientset) error {
		return upstream(klog.NewContext(ctx, logger), client)
	}
	oursLogging := func(ctx context.Context, client *fake.Clientset) error {
		return runEvictor(klog.NewContext(ctx, logger), eviction.Config{
			Client: client, Logger: logger,
			Rule: verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: true}},
		})
	}
	play(t, h, oursLogging)
	if n := errors.Swap(0); n > 0 {
		t.Errorf("ours logged %d errors", n)
	}
	play(t, h, logging)
	const evaluations = 2 // one for each change of the taints
	if n := errors.Load(); n != evaluations {
		t.Errorf("upstream logged %d errors; its defect is one for each of the %d evaluations", n, evaluations)
	}
}
