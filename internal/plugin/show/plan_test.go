// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"slices"
	"testing"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
)

func TestPodsThatMayFitNoNodeAreCountedAndFound(t *testing.T) {
	where := []*cliv1alpha1.WhereTo{
		{Node: "n1", Fits: 3}, {Bound: true, Fits: 2}, {Reason: "Its volumes are unknown."}, {NoSuccessor: true, Reason: "It is bare."},
	}
	plan := &cliv1alpha1.TaintPlan{Summary: cliv1alpha1.PlanSummary{Leave: 4, AtOnce: 4, Placed: 1, Bounds: 1, NoSuccessor: 1}}
	for _, to := range where {
		plan.Pods = append(plan.Pods, cliv1alpha1.PlannedPod{Leaves: true, WhereTo: to})
	}
	const counted = "Where the pods that leave would go: 1 to a node, 0 nowhere, 2 uncertain, 1 without a successor."
	if lines := show.Lines(plan); !slices.Contains(lines, counted) {
		t.Errorf("the plan says %q, want %q", lines, counted)
	}
	if got, want := show.Found(show.LossesOf(plan))[command.Nowhere], "2 pods may fit no node"; got != want {
		t.Errorf("nowhere: %q, want %q", got, want)
	}
	plan.Summary.Nowhere, plan.Summary.Leave, plan.Summary.AtOnce = 1, 5, 5
	if got, want := show.Found(show.LossesOf(plan))[command.Nowhere], "1 pod fits no node, 2 pods may fit no node"; got != want {
		t.Errorf("nowhere: %q, want %q", got, want)
	}
}
