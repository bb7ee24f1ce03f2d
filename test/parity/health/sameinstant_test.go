// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNodesThatFallAtTheSameInstant plays what was once found wrong in ours, several times, because it
// was a matter of luck. After a restart silent nodes are all over their grace period at the same instant.
func TestNodesThatFallAtTheSameInstant(t *testing.T) {
	nodes := []nodeSpec{
		{Name: "a1", Zone: "a", Phase: 1596 * ms}, {Name: "a2", Zone: "a", Phase: 6292 * ms},
		{Name: "a3", Zone: "a", Phase: 8291 * ms}, {Name: "a4", Zone: "a", Phase: 8694 * ms},
	}
	mute := nodeSpec{Name: "a3", Zone: "a", Phase: 8291 * ms, Mute: true}
	for name, h := range map[string]history{
		"a node was tainted although another node's conditions already said that the zone was disrupted": {
			Nodes: nodes, Start: 6400 * ms,
			Steps: []step{{79498 * ms, fall{[]string{"a1", "a3", "a4"}}}, {99398 * ms, restart{}}},
		},
		"a state in between cost the zone a token": {
			Nodes: []nodeSpec{nodes[0], nodes[1], mute, nodes[3], {Name: "b1", Zone: "b", Phase: 1897 * ms}}, Start: 6400 * ms,
			Steps: []step{{79498 * ms, fall{[]string{"a1", "a4"}}}, {99398 * ms, restart{20 * sec}}, {156598 * ms, ready{"a2", corev1.ConditionFalse}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				if trial := (contest{ours, upstream}).try(t, &h); len(trial.Faults()) > 0 {
					t.Fatalf("%v\n%s", trial.Faults(), trial.Timetable())
				}
			}
		})
	}
}
