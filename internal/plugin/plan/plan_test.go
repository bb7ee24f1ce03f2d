// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
	"github.com/taintkeeper/taintkeeper/taints"
)

var (
	now, hourAgo = statetest.Now, statetest.HourAgo
	node, pod    = statetest.Node, statetest.Pod
	tolerating   = statetest.Tolerating
	ownedBy, on  = statetest.OwnedBy, statetest.On
)

func planFor(t *testing.T, cluster *state.Cluster, specs ...string) *cliv1alpha1.TaintPlan {
	t.Helper()
	return planOf(t, cluster, cluster.Nodes, specs...)
}

// planOf returns the plan for some of the nodes.
func planOf(t *testing.T, cluster *state.Cluster, nodes []*corev1.Node, specs ...string) *cliv1alpha1.TaintPlan {
	t.Helper()
	edit, err := taints.ParseEdit(specs...)
	if err != nil {
		t.Fatal(err)
	}
	made, err := plan.Make(t.Context(), cluster, plan.Request{Nodes: nodes, Edit: edit, Overwrite: taints.OverwriteExisting, At: now})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestReplicasThatLeaveOneAfterTheOtherAreNotLostTogether(t *testing.T) {
	web := ownedBy("ReplicaSet", "web")
	for name, test := range map[string]struct {
		pods   []*corev1.Pod
		others []string // taints of the other node
		lowest int
		says   string
	}{
		"an hour apart": {
			[]*corev1.Pod{pod("p", web, tolerating("k", 0)), pod("q", web, tolerating("k", 3600))}, nil, 1, "",
		},
		"before the successor of the first is ready": {
			[]*corev1.Pod{pod("p", web, tolerating("k", 0)), pod("q", web, tolerating("k", 4))}, nil, 0,
			"ReplicaSet default/web loses every replica: 2 of 2.",
		},
		"and no node takes the successors": {
			[]*corev1.Pod{pod("p", web, tolerating("k", 0)), pod("q", web, tolerating("k", 3600))}, []string{"other:NoSchedule"}, 0,
			"ReplicaSet default/web loses every replica: 2 of 2.",
		},
		"and a StatefulSet replaces each when it is gone": {
			[]*corev1.Pod{pod("db-0", ownedBy("StatefulSet", "db"), tolerating("k", 0)), pod("db-1", ownedBy("StatefulSet", "db"), tolerating("k", 3600))}, nil, 1, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &state.Cluster{Nodes: []*corev1.Node{node("n", test.others...), node("m", test.others...)}, Pods: test.pods}
			for _, pod := range test.pods {
				pod.Labels = map[string]string{"app": "web"}
			}
			cluster.Budgets = []*policyv1.PodDisruptionBudget{budgetOf("web", 1)}
			made := planOf(t, cluster, cluster.Nodes[:1], "k:NoExecute")
			if got := made.Workloads[0]; got.Replicas != 2 || got.Leave != 2 || got.Lowest != test.lowest {
				t.Errorf("the workload is %+v, want 2 of 2 to leave, and %d at the lowest", got, test.lowest)
			}
			if breach := 1 - test.lowest; made.Budgets[0].Breach != breach || made.Budgets[0].Leave != 2 {
				t.Errorf("the budget is %+v, want 2 pods to leave and a breach by %d", made.Budgets[0], breach)
			}
			if lost := 1 - test.lowest; made.Summary.WorkloadsLost != lost || made.Summary.BudgetsBreached != lost {
				t.Errorf("the summary is %+v, want %d lost and %d breached", made.Summary, lost, lost)
			}
			if lines := strings.Join(show.Losses(made), " "); !strings.HasPrefix(lines, test.says) {
				t.Errorf("the plan says %q, want %q", lines, test.says)
			}
		})
	}
}

// A pod that tolerates the taint for some time may come back, and leave again.
func TestANodeIsEmptiedIfNoSuccessorComesToIt(t *testing.T) {
	for name, test := range map[string]struct {
		plan    plan.Request
		emptied bool
		again   int
		says    string
	}{
		"one comes back": {plan.Request{WhereTo: true}, false, 1, "Of the pods that go to a node, 1 must leave it again: it tolerates its NoExecute taints only for a while."},
		"nobody asks":    {plan.Request{}, true, 0, "1 node emptied: n."},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("n")
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("9")}
			cluster := &state.Cluster{Nodes: []*corev1.Node{n}, Pods: []*corev1.Pod{pod("p", ownedBy("ReplicaSet", "web"), tolerating("k", 60))}}
			edit, err := taints.ParseEdit("k:NoExecute")
			if err != nil {
				t.Fatal(err)
			}
			test.plan.Nodes, test.plan.Edit, test.plan.At = cluster.Nodes, edit, now
			made, err := plan.Make(t.Context(), cluster, test.plan)
			if err != nil {
				t.Fatal(err)
			}
			if made.Nodes[0].Emptied != test.emptied || made.Summary.Emptied == 1 != test.emptied || made.Summary.LeaveAgain != test.again {
				t.Errorf("the node is %+v, and the summary %+v", made.Nodes[0], made.Summary)
			}
			if lines := show.Lines(made); !slices.Contains(lines, test.says) {
				t.Errorf("the plan says %q, want %q", lines, test.says)
			}
		})
	}
}

func TestPodsThatArePreemptedCountAsPodsThatLeave(t *testing.T) {
	narrow := func(name string) *corev1.Node {
		n := node(name)
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
		return n
	}
	prior := func(priority int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Priority, pod.Labels = &priority, map[string]string{"app": pod.Name} }
	}
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{narrow("n"), narrow("other")},
		Pods: []*corev1.Pod{
			pod("high", ownedBy("ReplicaSet", "high"), prior(1000)),
			pod("low", ownedBy("ReplicaSet", "low"), prior(0), on("other")),
		},
		Budgets: []*policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "low"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "low"}}, MinAvailable: new(intstr.FromInt32(1)),
			},
		}},
	}
	made, err := plan.Make(t.Context(), cluster, plan.Request{
		Nodes: cluster.Nodes[:1], Edit: taints.Edit{Add: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}}, At: now, WhereTo: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if where := made.Pods[0].WhereTo; where.Node != "other" || len(where.Preempts) != 1 || where.Preempts[0] != "default/low" {
		t.Errorf("the pod goes to %+v, want other, after it has preempted low", where)
	}
	if len(made.Preempted) != 1 || made.Preempted[0].Name != "low" || made.Preempted[0].WhereTo.Node != "" {
		t.Errorf("the pods that are preempted are %+v, want low, which fits no node", made.Preempted)
	}
	want := cliv1alpha1.PlanSummary{
		Nodes: 1, Emptied: 1, Pods: 1, Leave: 1, AtOnce: 1, Changed: 1, WorkloadsLost: 2, BudgetsBreached: 1, Placed: 1,
		Preempted: 1, Last: made.Summary.Last,
	}
	if made.Summary != want {
		t.Errorf("the summary is %+v, want %+v", made.Summary, want)
	}
}

func TestANoteNamesANodeThatCannotBeChanged(t *testing.T) {
	cluster := &state.Cluster{Nodes: []*corev1.Node{node("m"), node("n", "k:NoExecute")}, Pods: []*corev1.Pod{pod("p")}}
	made := planFor(t, cluster, "k-")
	if len(made.Nodes) != 1 || made.Nodes[0].Name != "n" {
		t.Errorf("the nodes are %+v, want n alone", made.Nodes)
	}
	if len(made.Notes) != 1 || !strings.HasPrefix(made.Notes[0], "Left out node m: ") {
		t.Errorf("the notes are %q", made.Notes)
	}
}

// budgetOf covers the pods of an app.
func budgetOf(app string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-" + app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ExpectedPods: 2, CurrentHealthy: 2, DesiredHealthy: 2 - allowed},
	}
}
