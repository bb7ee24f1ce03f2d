// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestAGracePeriodShorterThanTwoRenewalsIsFound(t *testing.T) {
	leading := func(grace time.Duration) sign {
		leader := v1alpha1.Leader{Controllers: []string{"node-health"}, MonitorGrace: grace}
		return func(cluster *state.Cluster) {
			leads("node-health")(cluster)
			cluster.Signs.Leases[0].Labels = leader.Labels(replica)
		}
	}
	for name, test := range map[string]struct {
		sign sign
		want is
	}{
		"one renewal":         {leading(10 * time.Second), warningThat("--node-monitor-grace-period=10s is less than 21s")},
		"just too short":      {leading(20999 * time.Millisecond), warningThat("=20.999s is less than 21s")},
		"long enough":         {leading(21 * time.Second), nothing},
		"without node health": {leading(0), nothing},
		"of the built-in":     {process("kube-controller-manager", "--node-monitor-grace-period=10s"), nothing},
		"of an old version":   {oldTaintkeeper, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "short-grace-period", clusterWith(test.sign)))
		})
	}
}
