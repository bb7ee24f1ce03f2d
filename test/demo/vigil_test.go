// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// seenNode is a node as a read brings it.
func seenNode(name string, ready corev1.ConditionStatus, effects ...corev1.TaintEffect) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	for _, effect := range effects {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: unreached, Effect: effect})
	}
	return node
}

// read lets a vigil read these nodes; the read before was sent a tenth of a second ago.
func (v *vigil) read(at float64, nodes ...corev1.Node) {
	v.note(nodes, between{after: after(at - 0.1), before: after(at)})
}

const (
	keptAway = corev1.TaintEffectNoSchedule
	sentAway = corev1.TaintEffectNoExecute
)

// silentVigil is one of the last act as it should go.
func silentVigil() *vigil {
	v := newVigil([]string{north1, north2}, start)
	for _, w := range v.nodes {
		w.lease = start
	}
	v.read(8.2, seenNode(north1, corev1.ConditionUnknown, keptAway, sentAway), seenNode(north2, corev1.ConditionUnknown, keptAway))
	v.read(12.2, seenNode(north1, corev1.ConditionUnknown, keptAway, sentAway), seenNode(north2, corev1.ConditionUnknown, keptAway, sentAway))
	return v
}

func (v *vigil) comesBack() {
	v.back = after(14.5)
	v.read(14.7, seenNode(north1, corev1.ConditionTrue), seenNode(north2, corev1.ConditionTrue))
}

func TestTheZoneComesBackWhenTheFirstNodesPodsHaveLeftAndTheOthersStay(t *testing.T) {
	v := silentVigil()
	tolerant := forSeconds(unreached, 6)
	here, there := sightingOf("here", north1, tolerant), sightingOf("there", north2, tolerant)
	if v.cue([]sighting{here, there}, after(13)) {
		t.Error("the cue comes while pods of both nodes are pending")
	}
	seen := []sighting{here.evictedAfter(14.2), there}
	if !v.cue(seen, after(14.3)) {
		t.Error("the cue does not come when the pods of a node have left")
	}
	v.comesBack()
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

func TestAPodOfASilentNodeMayLeaveFromTheEarliestInstantItsTaintCanHaveCome(t *testing.T) {
	v := silentVigil()
	for seconds, kept := range map[float64]bool{14.05: false, 14.15: true} {
		rows := v.rows([]sighting{sightingOf("a", north1, forSeconds(unreached, 6)).evictedAfter(seconds)})
		if got := rows[0].outcome(after(15)); got.kept() != kept {
			t.Errorf("a pod that left after %g s: outcome %d", seconds, got)
		}
	}
}

func TestWhatTaintkeeperDoesWrongToNodesIsSaid(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(v *vigil)
		want  string
	}{
		{"too soon", func(v *vigil) { v.nodes[0].lease = after(1) }, "node north-1 was called silent before its 8s were over"},
		{"too fast", func(v *vigil) { v.nodes[1].leave.before = after(9) }, "were tainted within 900ms"},
		{"one by one", func(v *vigil) {
			v.back = after(14)
			v.read(14.2, seenNode(north2, corev1.ConditionTrue, sentAway))
		}, "node north-2 lost one of its taints before the other"},
		{"elsewhere", func(v *vigil) { v.read(13, seenNode(east1, corev1.ConditionUnknown, keptAway)) }, "node east-1 of another zone was tainted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := silentVigil()
			tt.spoil(v)
			v.comesBack()
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
	if renewal := leaseSeconds * time.Second / 4; grace < 4*renewal {
		t.Errorf("a grace period of %s is short for kubelets that renew every %s", grace, renewal)
	}
}
