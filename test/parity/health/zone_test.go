// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// zoneRules is upstream's controller, asked for its rules alone.
func zoneRules(t *testing.T, p readiness.Policy) *nodelifecycle.Controller {
	t.Helper()
	client := &fake.Clientset{}
	factory := informers.NewSharedInformerFactory(client, 0)
	controller, err := nodelifecycle.NewNodeLifecycleController(t.Context(),
		factory.Coordination().V1().Leases(), factory.Core().V1().Pods(), factory.Core().V1().Nodes(), factory.Apps().V1().DaemonSets(),
		client, period, grace.Startup, grace.Monitor, p.Rate, p.SecondaryRate, int32(p.LargeZone), p.UnhealthyShare)
	if err != nil {
		t.Fatal(err)
	}
	return controller
}

// TestTheStateAndTheRateOfAZoneAreUpstreams tries every zone of up to twelve nodes, and random larger ones, with
// thresholds that lie on a border, near one, or anywhere.
func TestTheStateAndTheRateOfAZoneAreUpstreams(t *testing.T) {
	r := seed.Rand(0)
	shares := []float32{0, 0.25, 1.0 / 3, 0.5, 0.55, 0.6, 2.0 / 3, 0.75, 1, 1.5, r.Float32(), r.Float32(), r.Float32()}
	for _, share := range shares {
		for _, large := range []int{0, 3, 10, 50} {
			p := readiness.Policy{Rate: r.Float32(), SecondaryRate: r.Float32(), LargeZone: large, UnhealthyShare: share}
			p.FullDisruptionRate = p.Rate
			upstream := zoneRules(t, p)
			for size := range 13 {
				for notReady := range size + 1 {
					compareZone(t, upstream, p, size, notReady)
				}
			}
			for range 20 {
				size := 1 + r.IntN(200)
				compareZone(t, upstream, p, size, r.IntN(size+1))
			}
		}
	}
}

func compareZone(t *testing.T, upstream *nodelifecycle.Controller, p readiness.Policy, size, notReady int) {
	t.Helper()
	statuses := []*corev1.NodeCondition{nil, {Status: corev1.ConditionFalse}, {Status: corev1.ConditionUnknown}}
	var conditions []*corev1.NodeCondition
	for i := range size {
		if i < notReady {
			conditions = append(conditions, statuses[i%len(statuses)])
			continue
		}
		conditions = append(conditions, &corev1.NodeCondition{Status: corev1.ConditionTrue})
	}
	unhealthy, state := upstream.ComputeZoneState(conditions)
	if got := p.State(size, notReady); string(got) != string(state) || unhealthy != notReady {
		t.Errorf("%d of %d nodes not ready, threshold %v: ours is %s, upstream's %s of %d", notReady, size, p.UnhealthyShare, got, state, unhealthy)
	}
	for state, want := range map[readiness.State]float32{
		readiness.Normal:            p.Rate,
		readiness.PartialDisruption: upstream.ReducedQPSFunc(size),
		readiness.FullDisruption:    upstream.HealthyQPSFunc(size),
	} {
		if got := p.RateOf(state, size); got != want {
			t.Errorf("the rate of %d nodes in %s, large above %d: ours is %v, upstream's %v", size, state, p.LargeZone, got, want)
		}
	}
}
