// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
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
