// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// seenNode is a node as it is after a change.
func seenNode(name string, ready corev1.ConditionStatus, effects ...corev1.TaintEffect) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	for _, effect := range effects {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: unreached, Effect: effect})
	}
	return node
}

// read lets a vigil read that these nodes were changed, by calls that took a tenth of a second. The later, the newer.
func (v *vigil) read(t *testing.T, at float64, nodes ...corev1.Node) {
	t.Helper()
	for i := range nodes {
		nodes[i].ResourceVersion = fmt.Sprint(int(at * 1000))
		if err := v.note(change{&nodes[i], between{after: after(at - 0.1), before: after(at)}}); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	keptAway = corev1.TaintEffectNoSchedule
	sentAway = corev1.TaintEffectNoExecute
)

// silentVigil is one of the last act as it should go.
func silentVigil(t *testing.T) *vigil {
	t.Helper()
	v := newVigil([]string{north1, north2}, start)
	for _, w := range v.nodes {
		w.lease = start
	}
	v.read(t, 8.2, seenNode(north1, corev1.ConditionUnknown, keptAway, sentAway), seenNode(north2, corev1.ConditionUnknown, keptAway))
	v.read(t, 12.2, seenNode(north1, corev1.ConditionUnknown, keptAway, sentAway), seenNode(north2, corev1.ConditionUnknown, keptAway, sentAway))
	return v
}

func (v *vigil) comesBack(t *testing.T) {
	t.Helper()
	v.back = after(14.5)
	v.read(t, 14.7, seenNode(north1, corev1.ConditionTrue), seenNode(north2, corev1.ConditionTrue))
}

func TestTheZoneComesBackWhenTheFirstNodesPodsHaveLeftAndTheOthersStay(t *testing.T) {
	v := silentVigil(t)
	tolerant := forSeconds(unreached, 6)
	here, there := sightingOf("here", north1, tolerant), sightingOf("there", north2, tolerant)
	if v.cue([]sighting{here, there}, after(13)) {
		t.Error("the cue comes while pods of both nodes are pending")
	}
	seen := []sighting{here.evictedAfter(14.2), there}
	if !v.cue(seen, after(14.3)) {
		t.Error("the cue does not come when the pods of a node have left")
	}
	v.comesBack(t)
	if v.over(seen, after(18)) || !v.over(seen, after(19.3)) {
		t.Error("the act ends at another instant than a second after the pod of the second node was due")
	}
	got := summarise(v.rows(seen), elsewhere{}, after(19.3))
	if !got.ok() || got.evicted != 1 || got.cancelled != 1 {
		t.Errorf("report %+v", got)
	}
	if problems := v.problems(); len(problems) > 0 {
		t.Errorf("problems %q", problems)
	}
}

func TestWhoIsShownToLeaveBeforeItIsDueLeftTooEarly(t *testing.T) {
	v := silentVigil(t)
	for seconds := 14.0; seconds < 14.3; seconds += 0.005 {
		r := v.rows([]sighting{sightingOf("a", north1, forSeconds(unreached, 6)).evictedAfter(seconds)})[0]
		if before, early := r.left.Before(r.Due), r.outcome(after(15)) == tooEarly; before != early {
			t.Fatalf("it left %s, was due %s, and is said to be early: %t", r.leftCell(start, after(15), afterAct), r.dueCell(start), early)
		}
	}
}

func TestAnAnswerThatIsOlderThanWhatIsKnownChangesNothing(t *testing.T) {
	v := silentVigil(t)
	before := v.nodes[0].taints
	old := seenNode(north1, corev1.ConditionTrue)
	old.ResourceVersion = "8000"
	if err := v.note(change{&old, between{after: after(12.3), before: after(12.4)}}); err != nil {
		t.Fatal(err)
	}
	if got := v.nodes[0].taints; len(got) != len(before) {
		t.Errorf("%d phases of taints, want %d", len(got), len(before))
	}
}

func TestWhatTaintkeeperDoesWrongToNodesIsSaid(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, v *vigil)
		want  string
	}{
		{"too soon", func(_ *testing.T, v *vigil) { v.nodes[0].lease = after(1) }, "node north-1 was called silent before its 8s were over"},
		{"too fast", func(_ *testing.T, v *vigil) { v.nodes[1].leave.before = after(9) }, "were tainted within 900ms"},
		{"one by one", func(t *testing.T, v *vigil) {
			v.back = after(14)
			v.read(t, 14.2, seenNode(north2, corev1.ConditionTrue, sentAway))
		}, "node north-2 lost one of its taints before the other"},
		{"elsewhere", func(t *testing.T, v *vigil) { v.read(t, 13, seenNode(east1, corev1.ConditionUnknown, keptAway)) }, "node east-1 of another zone was tainted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := silentVigil(t)
			tt.spoil(t, v)
			v.comesBack(t)
			if got := v.problems(); !slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, tt.want) }) {
				t.Errorf("problems %q, want one that says %q", got, tt.want)
			}
		})
	}
}

func TestTheActOfSilenceFitsItsTimes(t *testing.T) {
	if tolerated <= taintEvery {
		t.Error("the first node's pods leave before the second node is tainted, and nothing is left to cancel")
	}
	if grace < 4*renewal {
		t.Errorf("a grace period of %s is short for kubelets that renew every %s", grace, renewal)
	}
}
