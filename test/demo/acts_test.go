// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestActsPromiseWhatTheirTitlesSay checks the script against the bare pods, which have one node each.
func TestActsPromiseWhatTheirTitlesSay(t *testing.T) {
	want := []map[string]float64{
		{"plain": 0, "careful": 0},
		{"fragile": 0, "hasty": 2, "shadowed": 4, "settled": stays},
		{"heat-shy": 3, "steady": stays, "nimble": stays},
		{"brisk": stays, "calm": stays},
	}
	for i, a := range acts {
		t.Run(a.title, func(t *testing.T) {
			planned, err := a.forecast(start)
			if err != nil {
				t.Fatal(err)
			}
			rows := rowsOf(rule, boundBarePods(), a.node, planned)
			if len(rows) != len(want[i]) {
				t.Errorf("%d pods on node %s, want %d", len(rows), a.node, len(want[i]))
			}
			for _, r := range rows {
				due := want[i][r.pod.Name]
				if r.Leaves != (due != stays) || r.Leaves && !r.Due.Equal(after(due)) {
					t.Errorf("pod %s: leaves %t, due %v", r.pod.Name, r.Leaves, r.Due)
				}
			}
		})
	}
}

// stays is the due instant of a pod that has none.
const stays = -1

func boundBarePods() []sighting {
	var all []sighting
	for _, pod := range barePods() {
		node := pod.Spec.NodeSelector[corev1.LabelHostname]
		all = append(all, sightingOf(pod.Name, node, pod.Spec.Tolerations...))
	}
	return all
}
