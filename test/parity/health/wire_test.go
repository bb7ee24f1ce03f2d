// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestConditionsAndEventsAreUpstreamsLetterForLetter looks at a node that falls silent, at one that
// never posted its status, and at one that goes.
func TestConditionsAndEventsAreUpstreamsLetterForLetter(t *testing.T) {
	h := &history{
		Nodes: []nodeSpec{{Name: "a", Zone: "a", Phase: 1090 * ms}},
		Start: sec,
		Steps: []step{
			{2098 * ms, addNode{nodeSpec{Name: "b", Zone: "a", Phase: 2091 * ms, Created: 2 * sec}}},
			{3098 * ms, addNode{nodeSpec{Name: "c", Zone: "a", Phase: 3092 * ms, Created: 3 * sec, Absent: true}}},
			{4098 * ms, addNode{nodeSpec{Name: "d", Zone: "a", Phase: 4093 * ms, Created: 4 * sec}}},
			{9098 * ms, fall{[]string{"b"}}},
			{20098 * ms, removeNode{"d"}},
		},
	}
	said := map[string][]string{}
	for name, contestant := range map[string]contestant{"ours": ours, "upstream": upstream} {
		playAndLook(t, h, contestant, func(w *world) { said[name] = append(w.conditionsSaid("b", "c"), w.eventsSaid("b", "c", "d")...) })
	}
	if diff := cmp.Diff(said["upstream"], said["ours"]); diff != "" {
		t.Errorf("upstream says -, ours says +:\n%s", diff)
	}
	const least = 8 + 3 + 1 + 1 // conditions, and nodes that came, fell silent and went
	if len(said["upstream"]) < least {
		t.Errorf("upstream says no more than %q", said["upstream"])
	}
}

// conditionsSaid returns the conditions of nodes. Their transition times differ as the looks do.
func (w *world) conditionsSaid(names ...string) []string {
	var said []string
	for _, name := range names {
		for _, c := range w.cluster.nodes[name].Status.Conditions {
			said = append(said, fmt.Sprintf("%s: %s %s %s %q, heartbeat %s", name, c.Type, c.Status, c.Reason, c.Message, c.LastHeartbeatTime.UTC()))
		}
	}
	slices.Sort(said)
	return said
}

// eventsSaid returns the events about nodes, except those that only ours has.
func (w *world) eventsSaid(names ...string) []string {
	var said []string
	for _, e := range w.events {
		if object := e.InvolvedObject; object.Kind == "Node" && slices.Contains(names, object.Name) && e.Reason != "NoExecuteTaintHeld" {
			said = append(said, fmt.Sprintf("%s %s %s/%s: %s %s %q from %s, in %s", object.Kind, object.APIVersion, object.Name, object.UID, e.Type, e.Reason, e.Message, e.Source.Component, e.Namespace))
		}
	}
	slices.Sort(said)
	return said
}

// TestNoScheduleAndNoExecuteComeAndGoInOneWrite: upstream makes a separate write for each
// (kubernetes/kubernetes#112930, kubernetes/kubernetes#101599).
func TestNoScheduleAndNoExecuteComeAndGoInOneWrite(t *testing.T) {
	h := &history{
		Nodes: []nodeSpec{{Name: "a", Zone: "a", Phase: 1090 * ms}, {Name: "b", Zone: "a", Phase: 2091 * ms}},
		Start: sec,
		Steps: []step{{20098 * ms, ready{"b", corev1.ConditionFalse}}, {60098 * ms, ready{"b", corev1.ConditionTrue}}},
	}
	apart := map[string]int{}
	for name, contestant := range map[string]contestant{"ours": ours, "upstream": upstream} {
		for _, l := range play(t, h, contestant).looks["b"] {
			if (l.noSchedule == "") != (l.noExecute == "") {
				apart[name]++
			}
		}
	}
	if apart["ours"] != 0 || apart["upstream"] != 2 {
		t.Errorf("one came or went without the other %v times, want never in ours, and twice in upstream", apart)
	}
}
