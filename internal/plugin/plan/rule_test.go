// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// above tolerates a taint with a value greater than a number.
func above(key, number string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: key, Operator: corev1.TolerationOpGt, Value: number})
	}
}

func TestATolerationWithGtCountsAndANoteStatesTheAssumption(t *testing.T) {
	tainted, stays, leaves := node("n", "k=5:NoExecute"), pod("stays", above("k", "4")), pod("leaves", above("k", "5"))
	said := func(what string, notes []string, want bool) {
		t.Helper()
		about := func(note string) bool { return strings.Contains(note, "TaintTolerationComparisonOperators") }
		if slices.ContainsFunc(notes, about) != want {
			t.Errorf("the notes of %s are %q, want one about the feature gate: %t", what, notes, want)
		}
	}

	made := planFor(t, &state.Cluster{Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{stays, leaves}}, "k=5:NoExecute")
	if made.Pods[0].Name != "leaves" || !made.Pods[0].Leaves || made.Pods[1].Leaves {
		t.Errorf("the plan is %+v", made.Pods)
	}
	said("the plan", made.Notes, true)
	made = planFor(t, &state.Cluster{Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{pod("other")}}, "k=5:NoExecute")
	said("a plan without such pods", made.Notes, false)

	list := plan.Pending{}.In(state.LiveOf(state.Evictor{}, []*corev1.Node{tainted}, []*corev1.Pod{stays, leaves}, now), now)
	if len(list.Pods) != 1 || list.Pods[0].Name != "leaves" {
		t.Errorf("pending are %+v", list.Pods)
	}
	said("leaving", list.Notes, true)

	explanation := explain.Explain(explain.Subject{Pod: stays, Node: tainted, At: now})
	if explanation.Leaves {
		t.Errorf("it leaves: %+v", explanation)
	}
	said("why", explanation.Notes, true)

	listed := plan.TaintsOf(&state.Cluster{Pods: []*corev1.Pod{stays, leaves}}, []*corev1.Node{tainted},
		func(corev1.Taint) bool { return true })
	if listed[0].NotAtAll != 1 || listed[0].Indefinite != 1 {
		t.Errorf("the taint is tolerated as %+v says", listed[0])
	}
}

func TestPodsWithGtAreCountedAcrossNodes(t *testing.T) {
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{node("m", "k=5:NoExecute"), node("n", "k=5:NoExecute")},
		Pods: []*corev1.Pod{
			pod("a", above("k", "7"), on("m")), pod("b", above("k", "7"), on("m")), pod("c", on("m")),
			pod("d", above("j", "7")), pod("e"),
		},
	}
	want := state.ComparisonNotes(3)[0]
	if made := planFor(t, cluster, "other:NoSchedule"); !slices.Contains(made.Notes, want) {
		t.Errorf("the notes of the plan are %q, want %q", made.Notes, want)
	}
	if list := (plan.Pending{}).In(state.LiveOf(state.Evictor{}, cluster.Nodes, cluster.Pods, now), now); !slices.Contains(list.Notes, want) {
		t.Errorf("the notes of leaving are %q, want %q", list.Notes, want)
	}
}
