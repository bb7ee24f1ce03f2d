// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// dues are the names of pending pods, with the time until they are due.
func dues(list *cliv1alpha1.PendingList) []string {
	all := []string{}
	for _, pod := range list.Pods {
		all = append(all, pod.Name+" "+pod.Due.Sub(list.At.Time).String())
	}
	return all
}

func TestPendingPodsAreListedSoonestFirst(t *testing.T) {
	important := func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(10)) }
	live := state.LiveOf(state.Evictor{}, []*corev1.Node{node("n", "k:NoExecute")}, []*corev1.Pod{
		pod("stays", tolerating("k")),
		pod("late"),
		pod("b", tolerating("k", 3700)), pod("a", tolerating("k", 3700)), pod("important", tolerating("k", 3700), important),
		pod("soon", tolerating("k", 3600)),
		pod("static", func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("terminating", func(pod *corev1.Pod) { pod.DeletionTimestamp = &hourAgo }),
		pod("finished", tolerating("k", 4000), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }),
		pod("unbound", func(pod *corev1.Pod) { pod.Spec.NodeName = "" }),
		pod("elsewhere", func(pod *corev1.Pod) { pod.Spec.NodeName = "other" }),
	}, now)
	want := []string{"late -59m59.25s", "soon 750ms", "a 1m40.75s", "b 1m40.75s", "important 1m40.75s", "finished 6m40.75s"}
	if got := dues((plan.Pending{}).In(live, now)); !slices.Equal(got, want) {
		t.Errorf("%q are pending, want %q", got, want)
	}
}

func TestChangesTellWhatHappensToPendingPods(t *testing.T) {
	at := func(after time.Duration, pods ...cliv1alpha1.PendingPod) *cliv1alpha1.PendingList {
		return &cliv1alpha1.PendingList{At: metav1.NewMicroTime(now.Add(after)), Pods: pods}
	}
	due := func(name string, after time.Duration) cliv1alpha1.PendingPod {
		return cliv1alpha1.PendingPod{Name: name, UID: types.UID(name), Due: metav1.NewMicroTime(now.Add(after))}
	}
	for name, test := range map[string]struct {
		before, list *cliv1alpha1.PendingList
		there        bool
		want         []string
	}{
		"nothing changes":                       {at(0, due("p", time.Hour)), at(time.Second, due("p", time.Hour)), true, nil},
		"a pod that is new":                     {at(0), at(time.Second, due("p", time.Hour)), true, []string{"p Leaves"}},
		"a pod that is new and late is no more": {at(0), at(time.Minute, due("p", time.Second)), true, []string{"p Leaves"}},
		"a pod whose instant comes":             {at(0, due("p", time.Minute)), at(time.Minute, due("p", time.Minute)), true, []string{"p DueNow"}},
		"a pod whose instant came before":       {at(time.Minute, due("p", time.Minute)), at(time.Hour, due("p", time.Minute)), true, nil},
		"a pod that is due at another instant":  {at(0, due("p", time.Hour)), at(time.Second, due("p", time.Minute)), true, []string{"p Moved"}},
		"a pod that is deleted":                 {at(0, due("p", time.Hour)), at(time.Second), false, []string{"p Gone"}},
		"a pod that stays after all":            {at(0, due("p", time.Hour)), at(time.Second), true, []string{"p Cancelled"}},
		"several, those that are over first":    {at(0, due("p", time.Hour), due("q", time.Hour)), at(time.Second, due("o", time.Hour), due("q", time.Minute)), false, []string{"p Gone", "o Leaves", "q Moved"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, change := range plan.ChangesSince(test.before, test.list, func(types.UID) bool { return test.there }) {
				got = append(got, change.Pod.Name+" "+string(change.Change))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the changes are %q, want %q", got, test.want)
			}
		})
	}
}

// undated returns a node whose taint has no timeAdded. kubectl taint wrote it at the given time before now.
func undated(before time.Duration) *corev1.Node {
	node := node("n", "k:NoExecute")
	node.Spec.Taints[0].TimeAdded = nil
	written := metav1.NewTime(now.Truncate(time.Second).Add(-before))
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		{
			Manager: "kubelet", Time: new(metav1.NewTime(now)), FieldsType: "FieldsV1", Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{}}}`),
		},
		{
			Manager: "kubectl-taint", Time: &written, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`),
		},
	}
	return node
}

func TestATaintWithoutTimeAddedCountsFromAboutWhenItWasWritten(t *testing.T) {
	const minute, left = time.Minute, 4*time.Minute + 750*time.Millisecond
	bare, patient := undated(minute), pod("p", tolerating("k", 300))
	const note = "Node n: taint k:NoExecute has no timeAdded. It counts from about 2026-11-22T08:59:00Z, when kubectl-taint last wrote the taints of the node."
	said := func(what string, notes []string) {
		t.Helper()
		if len(notes) != 1 || notes[0] != note {
			t.Errorf("the notes of %s are %q", what, notes)
		}
	}

	live := state.LiveOf(state.Evictor{}, []*corev1.Node{bare}, []*corev1.Pod{patient}, now)
	list := plan.Pending{}.In(live, now)
	if pending := list.Pods[0]; pending.Due.Sub(now) != left || !pending.About {
		t.Errorf("pending is %+v", pending)
	}
	said("leaving", list.Notes)
	live.SetNode(bare, now.Add(minute))
	if pending := (plan.Pending{}).In(live, now.Add(minute)).Pods[0]; pending.Due.Sub(now) != left || !pending.About {
		t.Errorf("a minute later pending is %+v", pending)
	}

	cluster := &state.Cluster{Nodes: []*corev1.Node{bare}, Pods: []*corev1.Pod{patient}}
	made := planFor(t, cluster, "other:NoSchedule")
	if planned := made.Pods[0]; planned.Due.Sub(now) != left || !planned.About {
		t.Errorf("the plan is %+v", planned)
	}
	said("the plan", made.Notes)
	if planned := planFor(t, cluster, "other:NoExecute").Pods[0]; planned.About {
		t.Errorf("a pod that leaves because of a new taint: %+v", planned)
	}

	explanation := explain.Explain(explain.Subject{Pod: patient, Node: bare, At: now})
	if explanation.Due.Sub(now) != left || explanation.Timing.SinceFrom != cliv1alpha1.FromManagedFields {
		t.Errorf("the timing is %+v", explanation.Timing)
	}
	said("why", explanation.Notes)
}

func TestATaintCountsFromNowIfNothingSaysWhenItWasWritten(t *testing.T) {
	for name, bare := range map[string]*corev1.Node{
		"no managed fields": func() *corev1.Node {
			node := undated(time.Minute)
			node.ManagedFields = nil
			return node
		}(),
		"a clock that is ahead": undated(-time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			explanation := explain.Explain(explain.Subject{Pod: pod("p", tolerating("k", 300)), Node: bare, At: now})
			if explanation.Due.Sub(now) != 5*time.Minute || explanation.Timing.SinceFrom != cliv1alpha1.FromNow {
				t.Errorf("the timing is %+v", explanation.Timing)
			}
			if !strings.Contains(explanation.Notes[0], "so it counts from when this command first read it") {
				t.Errorf("the notes are %q", explanation.Notes)
			}
		})
	}
}

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
