// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
)

// These are rows of the table in the README: what kube-controller-manager does is what a simulation plays where it
// evicts.

// evictedByBuiltIn returns a node with pods, and one for successors, where kube-controller-manager evicts.
func evictedByBuiltIn(pods int, change ...func(*corev1.Pod)) *state.Cluster {
	cluster := &state.Cluster{Nodes: []*corev1.Node{node("a", "node"), node("a", "m")}}
	for i := range pods {
		p := pod("node", "ReplicaSet", "web", fmt.Sprintf("web-%04d", i), 60)
		for _, change := range change {
			change(p)
		}
		cluster.Pods = append(cluster.Pods, p)
	}
	return statetest.BuiltInEvicts(cluster, noon.Add(-time.Hour), noon)
}

const tainting = "{at: 0s, taint: {nodes: [node], taints: ['k:NoExecute']}}"

// leaveAt returns when pods leave, soonest first.
func leaveAt(report *cliv1alpha1.SimulationReport) (all []time.Duration) {
	for _, pod := range report.Pods {
		if pod.LeavesAt != nil {
			all = append(all, pod.LeavesAt.Duration)
		}
	}
	slices.Sort(all)
	return all
}

func noted(t *testing.T, report *cliv1alpha1.SimulationReport, want string) {
	t.Helper()
	if !slices.Contains(report.Notes, want) {
		t.Errorf("the notes are %q, want %q", report.Notes, want)
	}
}

func TestWhereKubeControllerManagerEvictsItsTimersDecide(t *testing.T) {
	both := []func(*corev1.Pod){statetest.Tolerating("k", 120), statetest.Tolerating("two", 4)}
	for name, test := range map[string]struct {
		steps []string
		leave []time.Duration
		note  string
	}{
		"a second taint that is tolerated for less is ignored": {
			[]string{tainting, "{at: 10s, taint: {nodes: [node], taints: ['two:NoExecute']}}"}, []time.Duration{2 * time.Minute},
			"With Taintkeeper it would be different for 1 pod: 1 would leave earlier.",
		},
		"an untaint in time saves it": {[]string{tainting, "{at: 119s, taint: {nodes: [node], taints: ['k-']}}"}, nil, ""},
		"a new leader, after an outage, begins the countdown again": {
			[]string{tainting, "{at: 60s, apiServerDown: 30s}"}, []time.Duration{210 * time.Second},
			"With Taintkeeper it would be different for 1 pod: 1 would leave earlier.",
		},
		"a leader outlives a short outage": {[]string{tainting, "{at: 60s, apiServerDown: 9s}"}, []time.Duration{2 * time.Minute}, ""},
		"a delete that falls into one is forgotten": {
			[]string{tainting, "{at: 115s, apiServerDown: 9s}"}, nil, "With Taintkeeper it would be different for 1 pod: 1 would leave.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := play(t, evictedByBuiltIn(1, both...), test.steps...)
			if got := leaveAt(report); !slices.Equal(got, test.leave) {
				t.Errorf("pods leave at %v, want %v", got, test.leave)
			}
			if test.note != "" {
				noted(t, report, test.note)
			}
		})
	}
}
