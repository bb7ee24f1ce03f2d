// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// prior gives a pod a priority.
func prior(priority int32, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Priority = &priority
	return pod
}

// narrow returns nodes n1, n2 and so on, with room for one pod each, and these pods.
func narrow(nodes []string, pods ...*corev1.Pod) *state.Cluster {
	cluster := &state.Cluster{Pods: pods}
	for _, name := range nodes {
		n := node("a", name)
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	return cluster
}

const drainN1 = "{at: 1m, taint: {nodes: [n1], taints: ['k:NoExecute']}}"

func TestAPodOfHigherPriorityPreemptsOthers(t *testing.T) {
	critical := func() *corev1.Pod { return prior(1000, pod("n1", "ReplicaSet", "critical", "critical-1", 60)) }
	never := critical()
	never.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	for name, test := range map[string]struct {
		leaves    *corev1.Pod
		others    []*corev1.Pod
		budget    string // allows no disruption of the pods of this ReplicaSet
		preempted string // the ReplicaSet
	}{
		"the only one": {
			critical(), []*corev1.Pod{prior(0, pod("n2", "ReplicaSet", "batch", "batch-1", 60))}, "", "batch",
		},
		"not if its policy is Never": {never, []*corev1.Pod{prior(0, pod("n2", "ReplicaSet", "batch", "batch-1", 60))}, "", ""},
		"not those of equal priority": {
			critical(), []*corev1.Pod{prior(1000, pod("n2", "ReplicaSet", "batch", "batch-1", 60))}, "", "",
		},
		"those of the lowest priority": {critical(), []*corev1.Pod{
			prior(5, pod("n2", "ReplicaSet", "some", "some-1", 60)), prior(1, pod("n3", "ReplicaSet", "batch", "batch-1", 60)),
		}, "", "batch"},
		"rather those whose budget allows it": {critical(), []*corev1.Pod{
			prior(1, pod("n2", "ReplicaSet", "some", "some-1", 60)), prior(1, pod("n3", "ReplicaSet", "batch", "batch-1", 60)),
		}, "some", "batch"},
		"those whose budget does not, if there are no others": {
			critical(), []*corev1.Pod{prior(0, pod("n2", "ReplicaSet", "batch", "batch-1", 60))}, "batch", "batch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []string{"n1", "n2", "n3"}[:1+len(test.others)]
			cluster := narrow(nodes, append([]*corev1.Pod{test.leaves}, test.others...)...)
			if test.budget != "" {
				cluster.Budgets = []*policyv1.PodDisruptionBudget{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "budget"},
					Spec: policyv1.PodDisruptionBudgetSpec{
						Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": test.budget}}, MinAvailable: new(intstr.FromInt32(1)),
					},
				}}
			}
			report := playOptions(t, cluster, course.Options{WhereTo: true}, drainN1)
			if test.preempted == "" {
				checkStory(t, report,
					"1m0s node n1: taint k:NoExecute set",
					"1m0s 1 pod leaves node n1 because of k:NoExecute",
					"1m0s 1 pod finds no room: ReplicaSet shop/critical",
					"1m0s ReplicaSet shop/critical has 0 of 1 replica, until the end",
				)
				return
			}
			node := nodes[len(nodes)-1]
			checkStory(t, report,
				"1m0s node n1: taint k:NoExecute set",
				"1m0s 1 pod leaves node n1 because of k:NoExecute",
				"1m0s 1 pod leaves node "+node+", preempted by ReplicaSet shop/critical",
				"1m0s 1 pod finds no room: ReplicaSet shop/"+test.preempted,
				"1m0s ReplicaSet shop/"+test.preempted+" has 0 of 1 replica, until the end",
				"1m0s ReplicaSet shop/critical has 0 of 1 replica, for at most 35s",
			)
			if report.Summary.Preempted != 1 || report.Summary.Left != 2 {
				t.Errorf("%d of %d pods that leave are preempted, want 1 of 2", report.Summary.Preempted, report.Summary.Left)
			}
		})
	}
}

func TestNoMorePodsArePreemptedThanNeeded(t *testing.T) {
	cluster := narrow([]string{"n1", "n2"},
		prior(1000, pod("n1", "ReplicaSet", "critical", "critical-1", 60)),
		prior(3, pod("n2", "ReplicaSet", "c", "c-1", 60)), prior(1, pod("n2", "ReplicaSet", "a", "a-1", 60)),
		prior(2, pod("n2", "ReplicaSet", "b", "b-1", 60)))
	cluster.Nodes[1].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("3")
	report := playOptions(t, cluster, course.Options{WhereTo: true}, drainN1)
	for _, pod := range report.Pods {
		if (pod.PreemptedBy != "") != (pod.Name == "a-1") {
			t.Errorf("pod %s is preempted by %q, want a-1 alone to be", pod.Name, pod.PreemptedBy)
		}
	}
}

func TestPodsPreemptOneAfterTheOther(t *testing.T) {
	cluster := narrow([]string{"n1", "n2", "n3"},
		prior(1000, pod("n1", "ReplicaSet", "x", "x-1", 60)), prior(1000, pod("n1", "ReplicaSet", "y", "y-1", 60)),
		prior(1000, pod("n1", "ReplicaSet", "z", "z-1", 60)),
		prior(0, pod("n2", "ReplicaSet", "a", "a-1", 60)), prior(0, pod("n3", "ReplicaSet", "b", "b-1", 60)))
	cluster.Nodes[0].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("3")
	report := playOptions(t, cluster, course.Options{WhereTo: true}, drainN1)
	by := map[string]string{}
	for _, pod := range report.Pods {
		if pod.PreemptedBy != "" {
			by[pod.Name] = pod.PreemptedBy
		}
	}
	want := map[string]string{"a-1": "shop/x-1~2", "b-1": "shop/y-1~2"}
	if !maps.Equal(by, want) || report.Summary.Nowhere != 3 {
		t.Errorf("pods are preempted by %v and %d find no room, want %v, and z and both of them to find none", by, report.Summary.Nowhere, want)
	}
}
