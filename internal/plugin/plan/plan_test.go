// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	static       = statetest.Static
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

func TestAPlanSaysWhenEachPodLeaves(t *testing.T) {
	for name, test := range map[string]struct {
		node   *corev1.Node
		pod    *corev1.Pod
		specs  []string
		after  time.Duration // from now; -1 means that it stays
		change cliv1alpha1.Change
	}{
		"nothing tolerates the taint":           {node("n"), pod("p"), []string{"k:NoExecute"}, 0, cliv1alpha1.ChangeLeaves},
		"it is tolerated for a while":           {node("n"), pod("p", tolerating("k", 300)), []string{"k:NoExecute"}, 5 * time.Minute, cliv1alpha1.ChangeLeaves},
		"it is tolerated indefinitely":          {node("n"), pod("p", tolerating("k")), []string{"k:NoExecute"}, -1, cliv1alpha1.ChangeNone},
		"another effect evicts nobody":          {node("n"), pod("p"), []string{"k:NoSchedule"}, -1, cliv1alpha1.ChangeNone},
		"a second taint with a longer patience": {node("n", "a:NoExecute"), pod("p", tolerating("a", 3700), tolerating("k", 300)), []string{"k:NoExecute"}, 100750 * time.Millisecond, cliv1alpha1.ChangeNone},
		"a second taint brings it forward":      {node("n", "a:NoExecute"), pod("p", tolerating("a", 7200), tolerating("k", 300)), []string{"k:NoExecute"}, 5 * time.Minute, cliv1alpha1.ChangeEarlier},
		"a removal saves it":                    {node("n", "a:NoExecute"), pod("p", tolerating("a", 7200)), []string{"a-"}, -1, cliv1alpha1.ChangeStays},
		"another value postpones nothing":       {node("n", "a=1:NoExecute"), pod("p", tolerating("a", 7200)), []string{"a=2:NoExecute"}, time.Hour + 750*time.Millisecond, cliv1alpha1.ChangeNone},
		"a static pod is its kubelet's":         {node("n"), pod("p", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }), []string{"k:NoExecute"}, -1, cliv1alpha1.ChangeNone},
		"a pod that terminates leaves already":  {node("n"), pod("p", func(p *corev1.Pod) { p.DeletionTimestamp = &hourAgo }), []string{"k:NoExecute"}, -1, cliv1alpha1.ChangeNone},
	} {
		t.Run(name, func(t *testing.T) {
			made := planFor(t, &state.Cluster{Nodes: []*corev1.Node{test.node}, Pods: []*corev1.Pod{test.pod}}, test.specs...)
			got := made.Pods[0]
			if got.Change != test.change {
				t.Errorf("the change is %q, want %q", got.Change, test.change)
			}
			switch {
			case test.after < 0:
				if got.Leaves || got.Due != nil {
					t.Errorf("it leaves at %v, want it to stay", got.Due)
				}
			case !got.Leaves || !got.Due.Time.Equal(now.Add(test.after)):
				t.Errorf("it leaves: %t, at %v; want at %v", got.Leaves, got.Due, now.Add(test.after))
			}
		})
	}
}

func TestAWorkloadIsLostWhenNoReplicaStays(t *testing.T) {
	elsewhere := func(pod *corev1.Pod) { pod.Spec.NodeName = "other" }
	finished := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{node("n"), node("other")},
		Pods: []*corev1.Pod{
			pod("a1", ownedBy("ReplicaSet", "a-5c")), pod("a2", ownedBy("ReplicaSet", "a-5c")),
			pod("b1", ownedBy("StatefulSet", "b")), pod("b2", ownedBy("StatefulSet", "b"), elsewhere),
			pod("c1", ownedBy("Job", "c"), finished),
			pod("d1"),
		},
		Controllers: map[types.UID]metav1.OwnerReference{"a-5c": {Kind: "Deployment", Name: "a"}},
	}
	made := planOf(t, cluster, cluster.Nodes[:1], "k:NoExecute")
	want := []cliv1alpha1.PlannedWorkload{
		{Owner: cliv1alpha1.Owner{Kind: "Deployment", Name: "a"}, Namespace: "default", Replicas: 2, Leave: 2},
		{Owner: cliv1alpha1.Owner{Kind: "StatefulSet", Name: "b"}, Namespace: "default", Replicas: 2, Leave: 1, Lowest: 1},
	}
	if len(made.Workloads) != 2 || made.Workloads[0] != want[0] || made.Workloads[1] != want[1] {
		t.Errorf("the workloads are %+v, want %+v", made.Workloads, want)
	}
	if made.Summary.WorkloadsLost != 1 || made.Summary.Leave != 5 || made.Summary.Emptied != 1 {
		t.Errorf("the summary is %+v, want 5 pods to leave, 1 workload lost and 1 node emptied", made.Summary)
	}
}

// A rollout that hangs has pods that serve nobody.
func TestPodsThatNothingReplacesAndLocalDataAreLosses(t *testing.T) {
	scratch := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	finished := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	made := planFor(t, &state.Cluster{Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{
		pod("bare"), pod("bare-with-data", scratch), pod("web", ownedBy("ReplicaSet", "web"), scratch),
		pod("stays", scratch, tolerating("k")), pod("static", static, scratch), pod("done", finished, scratch),
		pod("leaving", scratch, func(pod *corev1.Pod) { pod.DeletionTimestamp = &hourAgo }),
	}}, "k:NoExecute")
	lost, data := map[string]bool{}, map[string]bool{}
	for _, planned := range made.Pods {
		if planned.Lost {
			lost[planned.Name] = true
		}
		if planned.LocalData {
			data[planned.Name] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"bare": true, "bare-with-data": true}, lost); diff != "" {
		t.Errorf("other pods are lost (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"bare-with-data": true, "web": true}, data); diff != "" {
		t.Errorf("other pods lose data (-want +got):\n%s", diff)
	}
	if made.Summary.PodsLost != 2 || made.Summary.LocalData != 2 {
		t.Errorf("the summary is %+v", made.Summary)
	}
	lines := show.Losses(made)
	want := []string{
		"2 pods that leave have no controller, so nothing replaces them: default/bare, default/bare-with-data.",
		"2 pods lose the data in their emptyDir volumes: default/bare-with-data, default/web.",
	}
	if lines[0] != want[0] || !slices.Contains(lines, want[1]) {
		t.Errorf("the losses are %q, want them to begin with %q and to have %q", lines, want[0], want[1])
	}
}

func TestPodGarbageCollectionDeletesTheTerminatingPodsOfANodeThatIsOutOfService(t *testing.T) {
	terminating := func(pod *corev1.Pod) { pod.DeletionTimestamp = &hourAgo }
	for status, want := range map[corev1.ConditionStatus]string{
		corev1.ConditionUnknown: "It is already terminating. The taint out-of-service lets pod garbage collection delete it.",
		corev1.ConditionTrue:    "It is already terminating.",
	} {
		dead := node("n")
		dead.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		cluster := &state.Cluster{Nodes: []*corev1.Node{dead}, Pods: []*corev1.Pod{pod("p", terminating)}}
		if got := planFor(t, cluster, corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute").Pods[0].Reason; got != want {
			t.Errorf("Ready is %s: the reason is %q, want %q", status, got, want)
		}
	}
}

func TestReplicasThatAreNotReadyHideNoLoss(t *testing.T) {
	unready := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	}
	web := ownedBy("ReplicaSet", "web")
	cluster := &state.Cluster{Nodes: []*corev1.Node{node("n"), node("m")}, Pods: []*corev1.Pod{
		pod("web-1", web), pod("web-2", web), pod("web-3", web, on("m"), unready), pod("web-4", web, on(""), unready),
		pod("hung-1", ownedBy("ReplicaSet", "hung"), unready),
	}}
	made := planOf(t, cluster, cluster.Nodes[:1], "k:NoExecute")
	want := cliv1alpha1.PlannedWorkload{Owner: cliv1alpha1.Owner{Kind: "ReplicaSet", Name: "web"}, Namespace: "default", Replicas: 2, Leave: 2}
	if len(made.Workloads) != 1 || made.Workloads[0] != want {
		t.Errorf("the workloads are %+v, want only %+v", made.Workloads, want)
	}
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

func TestABudgetIsBreachedByThePodsThatLeaveBeyondWhatItAllows(t *testing.T) {
	labeled := func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "a"} }
	notReady := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	}
	budget := func(name, value string, allowed int32) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ExpectedPods: 4, CurrentHealthy: 3, DesiredHealthy: 3 - allowed},
		}
	}
	cluster := &state.Cluster{
		Nodes:   []*corev1.Node{node("n")},
		Pods:    []*corev1.Pod{pod("a1", labeled), pod("a2", labeled), pod("a3", labeled, notReady), pod("a4", labeled, tolerating("k"))},
		Budgets: []*policyv1.PodDisruptionBudget{budget("breached", "a", 1), budget("kept", "a", 2), budget("of-others", "b", 0)},
	}
	made := planFor(t, cluster, "k:NoExecute")
	want := []cliv1alpha1.PlannedBudget{
		{Namespace: "default", Name: "breached", Allowed: 1, Leave: 3, Breach: 1},
		{Namespace: "default", Name: "kept", Allowed: 2, Leave: 3, Breach: 0},
	}
	if len(made.Budgets) != 2 || made.Budgets[0] != want[0] || made.Budgets[1] != want[1] {
		t.Errorf("the budgets are %+v, want %+v", made.Budgets, want)
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

func TestATaintWithoutTimeAddedIsTakenToCountFromNowAndThePlanSaysSo(t *testing.T) {
	tainted := node("n", "old:NoExecute")
	tainted.Spec.Taints[0].TimeAdded = nil
	made := planFor(t, &state.Cluster{Nodes: []*corev1.Node{tainted}, Pods: []*corev1.Pod{pod("p", tolerating("old", 60))}}, "k:NoSchedule")
	if due := made.Pods[0].Due; due == nil || !due.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("the pod is due at %v, want a minute from now", due)
	}
	if len(made.Notes) != 1 || !strings.Contains(made.Notes[0], "has no timeAdded") {
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

func TestTheSummaryCountsWhatThePlanSays(t *testing.T) {
	labeled := func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": pod.Name} }
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{node("m"), node("n"), node("only-static"), node("stays")},
		Pods: []*corev1.Pod{ // the first ones have no owner and no budget
			pod("s1", static), pod("s2", static, on("only-static")), pod("stays", tolerating("k"), on("stays"), labeled),
			pod("a", labeled, ownedBy("StatefulSet", "a")), pod("b", labeled, ownedBy("StatefulSet", "b"), on("m")),
			pod("c", labeled, tolerating("k", 300), ownedBy("StatefulSet", "c")), pod("d", labeled, on("stays")),
			pod("0", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }),
		},
		Budgets: []*policyv1.PodDisruptionBudget{budgetOf("a", 0), budgetOf("b", 0), budgetOf("d", 2)},
	}
	made := planFor(t, cluster, "k:NoExecute")
	last := metav1.NewMicroTime(now.Add(5 * time.Minute))
	want := cliv1alpha1.PlanSummary{
		Nodes: 4, Pods: 8, Emptied: 2, Changed: 5, Leave: 5, AtOnce: 4, Last: &last, PodsLost: 1, WorkloadsLost: 3,
		BudgetsBreached: 2,
	}
	if diff := cmp.Diff(want, made.Summary); diff != "" {
		t.Errorf("the summary (-want +got):\n%s", diff)
	}
	got := map[string]string{}
	for _, node := range made.Nodes {
		got[node.Name] = fmt.Sprintf("%d of %d leave, emptied: %t", node.Leave, node.Pods, node.Emptied)
	}
	if diff := cmp.Diff(map[string]string{
		"m": "1 of 1 leave, emptied: true", "n": "3 of 4 leave, emptied: true",
		"only-static": "0 of 1 leave, emptied: false", "stays": "1 of 2 leave, emptied: false",
	}, got); diff != "" {
		t.Errorf("the nodes (-want +got):\n%s", diff)
	}
}

func TestTaintsAreListedWithHowManyPodsTolerateThem(t *testing.T) {
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{node("n", "k:NoExecute", "k:NoSchedule", "other:NoSchedule"), node("m", "k:NoExecute")},
		Pods: []*corev1.Pod{
			pod("a"), pod("b"), pod("c"), pod("for-a-while", tolerating("k", 300)), pod("for-another", tolerating("k", 30)),
			pod("for-ever", tolerating("k")), pod("pending", on("")),
		},
	}
	got := plan.TaintsOf(cluster, cluster.Nodes, func(taint corev1.Taint) bool { return taint.Key == "k" })
	var lines []string
	for _, taint := range got {
		lines = append(lines, fmt.Sprint(taint.Node, " ", taint.Taint, " ", taint.NotAtAll, " ", taint.ForAWhile, " ", taint.Indefinite))
	}
	want := []string{"n k:NoExecute 3 2 1", "n k:NoSchedule 3 0 3", "m k:NoExecute 0 0 0"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the taints (-want +got):\n%s", diff)
	}
}

func TestADeploymentIsInferredFromTheHashOfItsReplicaSet(t *testing.T) {
	hashed := func(pod *corev1.Pod) { pod.Labels = map[string]string{"pod-template-hash": "5c"} }
	for want, owned := range map[string]*corev1.Pod{
		"Deployment a":  pod("p", ownedBy("ReplicaSet", "a-5c"), hashed),
		"ReplicaSet a":  pod("p", ownedBy("ReplicaSet", "a"), hashed),
		"ReplicaSet b-": pod("p", ownedBy("ReplicaSet", "b-")),
		"Other a-5c":    pod("p", ownedBy("Other", "a-5c"), hashed),
	} {
		owner := (&state.Cluster{}).Owner(owned)
		if got := owner.Kind + " " + owner.Name; got != want {
			t.Errorf("the owner is %s, want %s", got, want)
		}
	}
}

func TestAPlanNamesTheTaintThatAStayingPodTolerates(t *testing.T) {
	for taint, want := range map[string]string{"k:NoExecute": "k:NoExecute", "k:NoSchedule": ""} {
		cluster := &state.Cluster{Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{pod("p", tolerating("k"))}}
		if got := planFor(t, cluster, taint).Pods[0].Taint; got != want {
			t.Errorf("with %s the taint is %q, want %q", taint, got, want)
		}
	}
}
