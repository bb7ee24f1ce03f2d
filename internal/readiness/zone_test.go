// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import "testing"

var policy = Policy{Rate: 0.1, SecondaryRate: 0.01, FullDisruptionRate: 0.3, LargeZone: 50, UnhealthyShare: 0.55}

func TestTheStateOfAZone(t *testing.T) {
	for _, test := range []struct {
		size, notReady int
		want           State
	}{
		{0, 0, Normal},
		{1, 0, Normal},
		{1, 1, FullDisruption},
		{2, 2, FullDisruption},
		{3, 2, Normal}, // two are never a disruption, unless they are all
		{5, 3, PartialDisruption},
		{6, 3, Normal},
		{20, 10, Normal},
		{20, 11, PartialDisruption}, // 0.55, exactly the threshold
		{20, 19, PartialDisruption},
		{20, 20, FullDisruption},
	} {
		if got := policy.State(test.size, test.notReady); got != test.want {
			t.Errorf("%d of %d not ready: %s, want %s", test.notReady, test.size, got, test.want)
		}
	}
}

func TestTheRateOfAZone(t *testing.T) {
	for _, test := range []struct {
		state State
		size  int
		want  float32
	}{
		{Normal, 3, 0.1},
		{Normal, 1000, 0.1},
		{PartialDisruption, 50, 0},
		{PartialDisruption, 51, 0.01},
		{FullDisruption, 3, 0.3},
		{FullDisruption, 1000, 0.3},
	} {
		if got := policy.RateOf(test.state, test.size); got != test.want {
			t.Errorf("%d nodes in %s: %g, want %g", test.size, test.state, got, test.want)
		}
	}
}

func TestAZoneIsNamedByItsRegionAndZone(t *testing.T) {
	for key, want := range map[string]string{"": "(none)", "eu:\x00:eu-1": "eu/eu-1", ":\x00:a": "/a"} {
		if got := ZoneName(key); got != want {
			t.Errorf("%q is called %q, want %q", key, got, want)
		}
	}
}

func TestASentenceExplainsWhyANodeWaits(t *testing.T) {
	held := Held{Zone: "eu/eu-1", State: PartialDisruption, Size: 60, NotReady: 40, Rate: 0.01}
	none, all := held, held
	none.Rate, all.AllZones = 0, true
	for got, want := range map[string]string{
		held.String(): "zone eu/eu-1 is in state PartialDisruption (40 of 60 nodes not ready), and one of its nodes is tainted every 100 s",
		none.String(): "zone eu/eu-1 is in state PartialDisruption (40 of 60 nodes not ready), in which no node is tainted",
		all.String(): "every zone is fully disrupted (zone eu/eu-1: 40 of 60 nodes not ready), so the control plane is the more likely " +
			"cause and no node is tainted",
	} {
		if got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
