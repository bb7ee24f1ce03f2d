// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

func TestMain(m *testing.M) { bubble.Main(m) }

// TestActsRehearsed plays in virtual time the acts that need no kubelet.
func TestActsRehearsed(t *testing.T) {
	want := []tally{{left: 4, stayed: 3}, {left: 8, stayed: 2}, {left: 4, stayed: 2}, {stayed: 6, cancelled: 5}}
	for i, a := range acts[:len(want)] {
		t.Run(a.Name, func(t *testing.T) {
			var got tally
			a.Promised = append(slices.Clip(a.Promised), func(_ context.Context, p *scenario.Play) (scenario.Finding, error) {
				got = count(p.Rows(time.Now()))
				return scenario.Finding{Right: true}, nil
			})
			found, err := scenario.PlayVirtually(t, scenario.Ours, a.Scenario)
			if err != nil || !found.Right || got != want[i] {
				t.Errorf("%v, %v, %v, want %v", found, err, got, want[i])
			}
		})
	}
}
