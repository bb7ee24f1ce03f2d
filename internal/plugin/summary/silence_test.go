// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package summary_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/summary"
)

func TestManySilentNodesAreCountedByZone(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	after := func(d time.Duration) *metav1.MicroTime { return new(metav1.NewMicroTime(now.Add(d))) }
	plan := &cliv1alpha1.TaintPlan{At: metav1.NewMicroTime(now), Silent: true}
	for i := range 12 {
		zone := "a"
		if i >= 11 {
			zone = "b"
		}
		plan.Nodes = append(plan.Nodes, cliv1alpha1.PlannedNode{
			Name: fmt.Sprintf("node-%02d", i), Zone: zone,
			SilentAt: after(50 * time.Second), TaintedAt: after(time.Duration(50+10*i) * time.Second),
		})
	}
	want := []string{
		"Unknown in 50s: 11 nodes of zone a, 1 node of zone b.",
		"Tainted NoExecute, zone a: 11 nodes, the first in 50s, the last in 2m30s.",
		"Tainted NoExecute, zone b: node-11 in 2m40s.",
	}
	if lines := summary.Silence(plan); !slices.Equal(lines, want) {
		t.Errorf("the plan says %q, want %q", lines, want)
	}
}
