// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/google/go-cmp/cmp"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/summary"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

func policyOf(name string, spec v1alpha1.EvictionPolicySpec) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func inZone(node *corev1.Node, zone string) *corev1.Node {
	node.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	return node
}

func podsOn(node string, number int) (all []*corev1.Pod) {
	for i := range number {
		all = append(all, pod(fmt.Sprintf("%s-%d", node, i), on(node)))
	}
	return all
}

func TestADeadlineShiftsWhenAPodLeaves(t *testing.T) {
	hold := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: &metav1.Duration{Duration: time.Minute}}
	made := planFor(t, &state.Cluster{
		Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{pod("p", tolerating("k", 30))},
		Policies: []*v1alpha1.EvictionPolicy{policyOf("hold", hold)},
	}, "k:NoExecute")
	answer, due := made.Pods[0].Answer, made.Pods[0].Due
	if answer == nil || answer.Says != cliv1alpha1.PolicyHold || answer.LeavesAt == nil || answer.LeavesAt.Sub(due.Time) != time.Minute {
		t.Errorf("the answer is %+v, want a hold of a minute after %v", answer, due)
	}
	if got := made.Policies; len(got) != 1 || got[0].Pods != 1 || got[0].Held != 1 {
		t.Errorf("the policies are %+v", got)
	}
}

func TestAPlanSaysWhatAResumeLetsGoAndWhatIsThenDeletedWithoutAsking(t *testing.T) {
	labeled := func(app string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
	}
	ready := node("n")
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{ready}, Pods: []*corev1.Pod{pod("web", labeled("web")), pod("api", labeled("api"), tolerating("k", 30)), pod("mail")},
		Policies: []*v1alpha1.EvictionPolicy{
			policyOf("pause", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Paused: new("network")}),
			policyOf("respect", v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionEvict, Deadline: &metav1.Duration{Duration: time.Minute},
				PodSelector: &v1alpha1.Selector{MatchExpressions: []v1alpha1.SelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
			}),
		},
	}
	made := planFor(t, cluster, "k:NoExecute")
	want := cliv1alpha1.PlannedResume{
		Pods: 3, Leave: 3, Asked: 2, Late: 2, LateFrom: metav1.Duration{Duration: time.Minute}, LateTo: metav1.Duration{Duration: 90 * time.Second},
	}
	if made.Resumed == nil || *made.Resumed != want {
		t.Errorf("after a resume: %+v, want %+v", made.Resumed, want)
	}
	const says = "Pauses and open breakers keep 3 pods: 'kubectl taintkeeper resume --all' lets 3 leave. " +
		"The Eviction API is asked about 2 of them first. 2 are deleted without asking if still there 1m to 1m30s later."
	if lines := summary.Policies(made); !slices.Contains(lines, says) {
		t.Errorf("the plan says %q, want %q", lines, says)
	}
	cluster.Policies = cluster.Policies[1:]
	if made := planFor(t, cluster, "k:NoExecute"); made.Resumed != nil {
		t.Errorf("without a pause, the plan says that after a resume: %+v", made.Resumed)
	}
}

func TestWhatIsLostLeavesOutPodsThatAreHeldWithoutAnEnd(t *testing.T) {
	evict := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict}
	hold := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}
	briefly := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: &metav1.Duration{Duration: time.Minute}}
	for name, test := range map[string]struct {
		spec    *v1alpha1.EvictionPolicySpec
		allowed int32
		leave   int
		breach  int
		emptied bool
	}{
		"no policy":                 {leave: 2, allowed: 1, breach: 1, emptied: true},
		"a Hold":                    {spec: &hold, allowed: 1},
		"a Hold with a deadline":    {spec: &briefly, allowed: 1, leave: 2, breach: 1, emptied: true},
		"Evict asks the budget":     {spec: &evict, allowed: 1, leave: 2, emptied: true},
		"a budget that allows none": {spec: &evict},
	} {
		t.Run(name, func(t *testing.T) {
			ready := func(pod *corev1.Pod) {
				pod.Labels = map[string]string{"app": "web"}
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			n := node("n")
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			cluster := &state.Cluster{
				Nodes:   []*corev1.Node{n, node("m")}, // where a successor is ready before the second pod leaves
				Pods:    []*corev1.Pod{pod("p", ready, ownedBy("ReplicaSet", "web")), pod("q", ready, ownedBy("ReplicaSet", "web"))},
				Budgets: []*policyv1.PodDisruptionBudget{budgetOf("web", test.allowed)},
			}
			if test.spec != nil {
				cluster.Policies = []*v1alpha1.EvictionPolicy{policyOf("policy", *test.spec)}
			}
			made := planOf(t, cluster, []*corev1.Node{n}, "k:NoExecute")
			leave, breach := 0, 0
			for _, budget := range made.Budgets {
				leave, breach = budget.Leave, budget.Breach
			}
			if leave != test.leave || breach != test.breach || made.Nodes[0].Emptied != test.emptied || made.Nodes[0].Leave != test.leave {
				t.Errorf("%d leave, %d in breach of the budget, and node %+v, want %+v", leave, breach, made.Nodes[0], test)
			}
			if made.Summary.Leave != 2 {
				t.Errorf("%d are due, want 2", made.Summary.Leave)
			}
		})
	}
}

func TestPodsThatStayAndPodsThatNoPolicySelectsHaveNoAnswer(t *testing.T) {
	others := v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionHold, PodSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"a": "b"}},
	}
	made := planFor(t, &state.Cluster{
		Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{pod("leaves"), pod("stays", tolerating("k"))},
		Policies: []*v1alpha1.EvictionPolicy{policyOf("others", others)},
	}, "k:NoExecute")
	if made.Pods[0].Answer != nil || made.Pods[1].Answer != nil || made.Policies != nil {
		t.Errorf("the pods are %+v, and the policies %+v", made.Pods, made.Policies)
	}
}

func TestNoPolicyHoldsPodsThatTheDaemonSetControllerDeletes(t *testing.T) {
	daemon := func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		held bool
	}{
		"that do not tolerate the taint": {pod("p", daemon), false},
		"but one that tolerates it for some time": {pod("p", daemon, tolerating("k"), func(pod *corev1.Pod) {
			pod.Spec.Tolerations[0].TolerationSeconds = new(int64(60))
			pod.Spec.Tolerations[0].Effect = corev1.TaintEffectNoExecute
		}), true},
		"but one of another controller": {pod("p"), true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &state.Cluster{
				Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{test.pod},
				Policies: []*v1alpha1.EvictionPolicy{policyOf("all", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})},
			}
			made := planFor(t, cluster, "k:NoExecute")
			if is := &made.Pods[0]; !is.Leaves || is.Answer.Stays() != test.held {
				t.Errorf("the plan says %+v, want that it is held to be %t", is, test.held)
			}
			tainted := node("n")
			tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
			live := state.LiveOf(state.Evictor{}, []*corev1.Node{tainted}, cluster.Pods, now)
			if pods := (plan.Pending{Policies: cluster.PoliciesOf()}).In(live, now).Pods; len(pods) != 1 || pods[0].Answer.Stays() != test.held {
				t.Errorf("pending has %+v, want that it is held to be %t", pods, test.held)
			}
			explained := explain.Explain(explain.Subject{Pod: test.pod, Node: tainted, Policies: cluster.PoliciesOf(), At: now})
			if says := strings.Contains(strings.Join(explained.Notes, "\n"), "The DaemonSet controller deletes the pod"); !explained.Leaves ||
				explained.Answer.Stays() != test.held || says == test.held {
				t.Errorf("why says %+v, want that it is held to be %t", explained, test.held)
			}
		})
	}
}

func TestAPaceSaysWhenEachPodLeaves(t *testing.T) {
	for scope, want := range map[v1alpha1.PaceScope][]int{ // in minutes
		v1alpha1.ScopeCluster: {0, 0, 1, 1, 2, 2, 3}, // 7 pods, 2 per minute
		v1alpha1.ScopeZone:    {0, 0, 0, 0, 1, 1, 2}, // 5 in zone a
		v1alpha1.ScopeNode:    {0, 0, 0, 0, 0, 0, 1}, // 3 on a-1
	} {
		pace := &v1alpha1.EvictionPace{Pods: 2, Per: metav1.Duration{Duration: time.Minute}, Scope: scope}
		cluster := &state.Cluster{
			Nodes:    []*corev1.Node{inZone(node("a-1"), "a"), inZone(node("a-2"), "a"), inZone(node("b-1"), "b")},
			Policies: []*v1alpha1.EvictionPolicy{policyOf("slowly", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Pace: pace})},
		}
		cluster.Pods = append(append(podsOn("a-1", 3), podsOn("a-2", 2)...), podsOn("b-1", 2)...)
		made := planFor(t, cluster, "k:NoExecute")
		var got []int
		for _, pod := range made.Pods {
			got = append(got, int(pod.Answer.LeavesAt.Sub(pod.Due.Time).Minutes()))
			if waits := pod.Answer.Reason == string(policy.Paced); waits != (got[len(got)-1] > 0) {
				t.Errorf("%s: a pod that leaves after %d minutes has the answer %+v", scope, got[len(got)-1], pod.Answer)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: pods leave after %v minutes, want %v", scope, got, want)
		}
		if is := made.Policies[0]; is.Held != 0 || is.LastAt == nil || int(is.LastAt.Sub(made.Pods[0].Due.Time).Minutes()) != slices.Max(want) {
			t.Errorf("%s: the policy is %+v", scope, is)
		}
	}
}

func TestPodsThatWaitForAPaceAreNotHeld(t *testing.T) {
	for action, asked := range map[v1alpha1.EvictionAction]int{v1alpha1.ActionDelete: 0, v1alpha1.ActionEvict: 5} {
		pace := &v1alpha1.EvictionPace{Pods: 2, Per: metav1.Duration{Duration: time.Minute}}
		made := planFor(t, &state.Cluster{
			Nodes: []*corev1.Node{node("n")}, Pods: podsOn("n", 5),
			Policies: []*v1alpha1.EvictionPolicy{policyOf("slowly", v1alpha1.EvictionPolicySpec{Action: action, Pace: pace, Unready: v1alpha1.UnreadyAsk})},
		}, "k:NoExecute")
		if is := made.Policies[0]; is.Pods != 5 || is.Held != 0 || is.Asked != asked {
			t.Errorf("%s: the policy is %+v, want five pods, of which it asks about %d", action, is, asked)
		}
	}
}

func TestABreakerCountsPodsOfOtherNodesThatAreDue(t *testing.T) {
	brake := v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(3)},
	}
	for name, test := range map[string]struct {
		other  *corev1.Node
		dryRun bool
		trips  bool
	}{
		"nobody else is due":       {other: node("other")},
		"two are":                  {other: node("other", "spot:NoExecute"), trips: true},
		"a dry run never objects":  {other: node("other", "spot:NoExecute"), dryRun: true},
		"their taint is tolerated": {other: node("other", "spot:NoSchedule")},
	} {
		t.Run(name, func(t *testing.T) {
			brake.DryRun = test.dryRun
			n := node("n")
			cluster := &state.Cluster{
				Nodes: []*corev1.Node{n}, Pods: append(podsOn("n", 2), podsOn("other", 2)...),
				Policies: []*v1alpha1.EvictionPolicy{policyOf("brake", brake)},
			}
			all := *cluster
			all.Nodes = append(all.Nodes, test.other)
			made := planOf(t, &all, cluster.Nodes, "k:NoExecute")
			if got := made.Policies[0]; (got.TripsAt != nil) != test.trips {
				t.Errorf("the policy is %+v, want it to trip: %v", got, test.trips)
			}
			if got := made.Pods[0].Answer.Reason == "Breaker"; got != test.trips {
				t.Errorf("the answer is %+v", made.Pods[0].Answer)
			}
		})
	}
}

func TestAPlanCountsThePodsOfEachPolicyAndBudget(t *testing.T) {
	labeled := func(app string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			ownedBy("ReplicaSet", app)(pod)
			pod.Labels = map[string]string{"app": app}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
	}
	of := func(app string, action v1alpha1.EvictionAction) v1alpha1.EvictionPolicySpec {
		selector := &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(app)}}
		return v1alpha1.EvictionPolicySpec{Action: action, PodSelector: selector}
	}
	n := node("n")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{n, node("m")}, Budgets: []*policyv1.PodDisruptionBudget{budgetOf("asked", 1)},
		Pods: []*corev1.Pod{
			pod("a", labeled("asked")), pod("b", labeled("asked")), pod("c", labeled("asked")),
			pod("h", labeled("held")), pod("i", labeled("held")), pod("stays", labeled("held"), tolerating("k")),
		},
		Policies: []*v1alpha1.EvictionPolicy{
			policyOf("asks", of("asked", v1alpha1.ActionEvict)), policyOf("holds", of("held", v1alpha1.ActionHold)),
		},
	}
	cluster.Budgets[0].Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 2}
	made := planOf(t, cluster, []*corev1.Node{n}, "k:NoExecute")
	want := []cliv1alpha1.PlannedPolicy{{Name: "asks", Pods: 3, Asked: 3}, {Name: "holds", Pods: 2, Held: 2}}
	if diff := cmp.Diff(want, made.Policies); diff != "" {
		t.Errorf("the policies (-want +got):\n%s", diff)
	}
	if got := made.Budgets[0]; got.Leave != 3 || got.Asked != 3 || got.Breach != 0 {
		t.Errorf("the budget is %+v, want that three pods leave, and it is asked about three", got)
	}
}
