// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import "testing"

func TestAGracePeriodShorterThanTwoRenewalsIsFound(t *testing.T) {
	const healing = "--controllers=*"
	for name, test := range map[string]struct {
		words []string
		want  is
	}{
		"one renewal":          {[]string{"taintkeeper", healing, "--node-monitor-grace-period=10s"}, warningThat("--node-monitor-grace-period=10s is less than 21s")},
		"just too short":       {[]string{"taintkeeper", healing, "--node-monitor-grace-period", "20999ms"}, warningThat("=20.999s is less than 21s")},
		"long enough":          {[]string{"taintkeeper", healing, "--node-monitor-grace-period=21s"}, nothing},
		"the default":          {[]string{"taintkeeper", healing}, nothing},
		"without node health":  {[]string{"taintkeeper", "--controllers=eviction", "--node-monitor-grace-period=10s"}, nothing},
		"of the built-in":      {[]string{"kube-controller-manager", "--node-monitor-grace-period=10s"}, nothing},
		"what is not readable": {[]string{"taintkeeper", healing, "--node-monitor-grace-period=soon"}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "short-grace-period", clusterWith(process(test.words...))))
		})
	}
}
