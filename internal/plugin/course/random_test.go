// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// TestRandomSimulationsAddUp plays random steps on random clusters, and checks what must be true of every report.
func TestRandomSimulationsAddUp(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var printed []string
			for range 2 {
				random := rand.New(rand.NewPCG(seed, 2))
				cluster := randomCluster(random)
				disturb(random, cluster)
				text := randomScenario(random, cluster)
				scenario, err := course.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				report, err := course.Play(t.Context(), cluster, scenario, course.Options{
					At: noon, Grace: grace, Policy: rates, StartDelay: 5 * time.Second, WhereTo: seed%2 == 0,
				})
				if err != nil {
					t.Fatal(err)
				}
				addsUp(t, cluster, report)
				if cluster.Policies == nil {
					leaveWhenDue(t, cluster, outagesOf(t, text), report)
				}
				is, err := json.Marshal(report)
				if err != nil {
					t.Fatal(err)
				}
				printed = append(printed, string(is))
			}
			if printed[0] != printed[1] {
				t.Errorf("the same input gives\n%s\nand\n%s", printed[0], printed[1])
			}
		})
	}
}

// TestAPlanAndASimulationOfTheSameTaintSayTheSame plans taints of random nodes, and simulates them.
func TestAPlanAndASimulationOfTheSameTaintSayTheSame(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			cluster := randomCluster(random)
			disturb(random, cluster)
			for _, node := range cluster.Nodes { // node health would add taints
				node.Spec.Unschedulable = false
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			}
			nodes := cluster.Nodes[:1+random.IntN(len(cluster.Nodes))]
			var names []string
			for _, node := range nodes {
				names = append(names, node.Name)
			}
			report := play(t, cluster, "{at: 0s, taint: {nodes: ["+strings.Join(names, ", ")+"], taints: ['k=v:NoExecute']}}")
			again := slices.ContainsFunc(report.Pods, func(pod cliv1alpha1.SimulatedPod) bool { return pod.UID == "" && pod.LeavesAt != nil })
			if again {
				t.Skip("in a plan, successors do not leave again")
			}
			saysAs(t, planFor(t, cluster, nodes, "k=v:NoExecute"), report)
		})
	}
}

// planFor returns the plan of a taint.
func planFor(t *testing.T, cluster *state.Cluster, nodes []*corev1.Node, taint string) *cliv1alpha1.TaintPlan {
	t.Helper()
	edit, err := taints.ParseEdit(taint)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := plan.Make(t.Context(), cluster, plan.Request{Nodes: nodes, Edit: edit, Overwrite: taints.OverwriteExisting, At: noon})
	if err != nil {
		t.Fatal(err)
	}
	return planned
}

// TestPodsLeaveInASimulationWhenThePlanSays taints zone b of random clusters, half of which have a policy, and a third of
// which kube-controller-manager serves.
func TestPodsLeaveInASimulationWhenThePlanSays(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			cluster := randomCluster(random)
			if seed%2 == 0 {
				cluster.Policies = []*v1alpha1.EvictionPolicy{policyOf(randomPolicy(random))}
			}
			if seed%3 == 0 {
				statetest.BuiltInEvicts(cluster, noon.Add(-time.Duration(random.IntN(600))*time.Second), noon)
			}
			zoneB := slices.DeleteFunc(slices.Clone(cluster.Nodes), func(node *corev1.Node) bool { return node.Labels[corev1.LabelTopologyZone] != "b" })
			leavesAs(t, planFor(t, cluster, zoneB, "k=v:NoExecute"),
				play(t, cluster, "{at: 0s, taint: {selector: topology.kubernetes.io/zone=b, taints: ['k=v:NoExecute']}}"))
		})
	}
}

func leavesAs(t *testing.T, planned *cliv1alpha1.TaintPlan, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for _, pod := range planned.Pods {
		at := pod.Due
		if pod.Answer != nil {
			at = pod.Answer.LeavesAt
		}
		if at != nil && at.Sub(noon) <= report.Until.Duration {
			want[pod.Name] = max(at.Sub(noon), 0).String()
		}
	}
	for _, pod := range report.Pods {
		if pod.LeavesAt != nil && pod.UID != "" {
			got[pod.Name] = pod.LeavesAt.Duration.String()
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("pods leave at other times than planned (-plan +simulation):\n%s", diff)
	}
}

// saysAs checks that a plan says the same about workloads and budgets as a simulation, which has only those that fall.
func saysAs(t *testing.T, planned *cliv1alpha1.TaintPlan, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	lowest, missing := map[cliv1alpha1.Owner]int{}, map[string]int{}
	for _, w := range report.Workloads {
		lowest[w.Owner] = w.Lowest
	}
	for _, b := range report.Budgets {
		missing[b.Name] = b.Desired - b.Lowest
	}
	for _, w := range planned.Workloads {
		if simulated, falls := lowest[w.Owner]; w.Lowest != simulated && (falls || w.Lowest != w.Replicas) {
			t.Errorf("the plan says %+v, and the simulation that %d are ready at the lowest", w, simulated)
		}
	}
	for _, b := range planned.Budgets {
		if simulated, falls := missing[b.Name]; falls && b.Breach != simulated {
			t.Errorf("the plan says %+v, and the simulation that %d are missing", b, simulated)
		}
	}
}

// disturb puts a cluster into a bad state at the start, and gives it policies and budgets.
func disturb(random *rand.Rand, cluster *state.Cluster) {
	for _, node := range cluster.Nodes {
		disturbNode(random, node)
	}
	for _, pod := range cluster.Pods {
		disturbPod(random, pod)
	}
	if random.IntN(2) == 0 {
		cluster.Policies = []*v1alpha1.EvictionPolicy{policyOf(randomPolicy(random))}
	}
	for i := range 6 {
		most := intstr.FromInt32(int32(random.IntN(3)))
		cluster.Budgets = append(cluster.Budgets, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("b", i)},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("w", random.IntN(5))}},
			},
		})
	}
}

func disturbNode(random *rand.Rand, node *corev1.Node) {
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse(fmt.Sprint(3 + random.IntN(10))), corev1.ResourceCPU: resource.MustParse("4"),
	}
	node.Spec.Unschedulable = random.IntN(6) == 0
	switch random.IntN(8) {
	case 0:
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
	case 1:
		node.Status.Conditions[0].Status = corev1.ConditionFalse
	case 2:
		node.Status.Conditions = nil
	case 3:
		node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
	}
}

func disturbPod(random *rand.Rand, pod *corev1.Pod) {
	switch random.IntN(12) {
	case 0:
		pod.OwnerReferences = nil
	case 1:
		pod.UID = ""
	case 2:
		pod.Status.Phase = corev1.PodSucceeded
	case 3:
		pod.DeletionTimestamp = &metav1.Time{Time: noon}
	case 4:
		pod.Spec.NodeName = ""
	case 5:
		pod.Spec.NodeName = "unknown"
	case 6:
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	case 7:
		pod.OwnerReferences[0].Kind = "DaemonSet"
	}
}

func randomPolicy(random *rand.Rand) (spec v1alpha1.EvictionPolicySpec) {
	spec.Action = []v1alpha1.EvictionAction{v1alpha1.ActionDelete, v1alpha1.ActionEvict, v1alpha1.ActionHold}[random.IntN(3)]
	if spec.Action != v1alpha1.ActionDelete && random.IntN(2) == 0 {
		spec.Deadline = &metav1.Duration{Duration: time.Duration(random.IntN(300)) * time.Second}
	}
	if spec.Action != v1alpha1.ActionHold && random.IntN(2) == 0 {
		spec.Pace = &v1alpha1.EvictionPace{Pods: 1, Per: metav1.Duration{Duration: time.Minute}, Scope: v1alpha1.ScopeZone}
	}
	if random.IntN(2) == 0 {
		spec.Breaker = &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(int32(1 + random.IntN(5)))}
	}
	return spec
}

// randomScenario generates steps, some of which may have no effect.
func randomScenario(random *rand.Rand, cluster *state.Cluster) []byte {
	var steps []string
	for range 2 + random.IntN(8) {
		node := cluster.Nodes[random.IntN(len(cluster.Nodes))]
		nodes := []string{"nodes: [" + node.Name + "]", "selector: topology.kubernetes.io/zone=b", "all: true"}[random.IntN(3)]
		is := []string{
			"silent: {" + nodes + "}", "back: {" + nodes + "}", "taint: {" + nodes + ", taints: ['k=v:NoExecute']}",
			"taint: {" + nodes + ", taints: ['k-']}", "taint: {" + nodes + ", taints: ['node.kubernetes.io/out-of-service:NoExecute']}",
			fmt.Sprintf("apiServerDown: %ds", 1+random.IntN(300)),
		}[random.IntN(6)]
		steps = append(steps, fmt.Sprintf("{at: %ds, %s}", random.IntN(1200), is))
	}
	return []byte("{kind: Simulation, until: 30m, steps: [" + strings.Join(steps, ", ") + "]}")
}

// addsUp checks what must be true of every report.
func addsUp(t *testing.T, cluster *state.Cluster, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	inOrder := slices.IsSortedFunc(report.Story, func(a, b cliv1alpha1.SimulationEvent) int {
		return cmp.Compare(a.At.Duration, b.At.Duration)
	})
	if !inOrder {
		t.Errorf("the story is not in chronological order: %q", story(report))
	}
	made := map[string]int{} // pods of each workload at the start
	for _, pod := range cluster.Pods {
		if owner := cluster.Owner(pod); owner != nil {
			made[owner.Kind+owner.Name]++
		}
	}
	for _, w := range report.Workloads {
		if w.Lowest < 0 || w.Lowest >= w.Replicas || w.AtEnd < 0 || w.AtEnd > made[w.Kind+w.Name] {
			t.Errorf("%+v does not add up: it had %d pods", w, made[w.Kind+w.Name])
		}
	}
	podsAddUp(t, report)
	replicasAddUp(t, made, report)
}

func podsAddUp(t *testing.T, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	successors, left := map[string]bool{}, 0
	for _, pod := range report.Pods {
		if pod.Successor != "" && (pod.Owner == nil || successors[pod.Successor]) {
			t.Errorf("%+v has a successor that is not its own", pod)
		}
		successors[pod.Successor] = true
		if pod.LeavesAt == nil {
			continue
		}
		left++
		if at := pod.LeavesAt.Duration; at < 0 || at > report.Until.Duration {
			t.Errorf("%+v leaves outside of the simulation", pod)
		}
	}
	if left != report.Summary.Left {
		t.Errorf("%d pods leave, and the summary says %d", left, report.Summary.Left)
	}
}

// outages are the times at which the API server is down.
type outages map[time.Duration]time.Duration

func outagesOf(t *testing.T, text []byte) outages {
	t.Helper()
	var scenario cliv1alpha1.Simulation
	if err := yaml.UnmarshalStrict(text, &scenario); err != nil {
		t.Fatal(err)
	}
	all := outages{}
	for _, step := range scenario.Steps {
		if step.APIServerDown != nil {
			all[step.At.Duration] = max(all[step.At.Duration], step.At.Duration+step.APIServerDown.Duration)
		}
	}
	return all
}

// after returns an instant, or the end of the outages that contain it.
func (o outages) after(at time.Duration) time.Duration {
	for from, to := range o {
		if from <= at && at < to {
			return o.after(to)
		}
	}
	return at
}

// leaveWhenDue checks the pods that existed at the start: those that are due leave then, and all others stay.
func leaveWhenDue(t *testing.T, cluster *state.Cluster, down outages, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	nodes := map[string]*corev1.Node{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = node
	}
	waited := map[string]bool{} // their nodes are not reported
	for _, pod := range cluster.Pods {
		waited[pod.Name] = pod.Spec.NodeName == ""
		node := nodes[pod.Spec.NodeName]
		if node == nil || state.IsStatic(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		if at, leaves := due(t, node, pod, historyOf(node, report), down); leaves {
			want[pod.Name] = at.String()
		}
	}
	for _, pod := range report.Pods {
		if pod.UID != "" && pod.LeavesAt != nil && !waited[pod.Name] {
			got[pod.Name] = pod.LeavesAt.Duration.String()
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("pods leave at other instants than their nodes' taints say (-want +got):\n%s", diff)
	}
}

// historyOf returns the taints of a node over time. It does not repeat those at the start.
func historyOf(node *corev1.Node, report *cliv1alpha1.SimulationReport) []cliv1alpha1.SimulatedTaints {
	history := []cliv1alpha1.SimulatedTaints{{}}
	for _, told := range report.Nodes {
		if told.Name == node.Name {
			history = append(history, told.Steps...)
		}
	}
	return append(history, cliv1alpha1.SimulatedTaints{At: metav1.Duration{Duration: report.Until.Duration + 1}})
}

// due returns when a pod leaves a node whose taints change.
func due(
	t *testing.T, node *corev1.Node, pod *corev1.Pod, history []cliv1alpha1.SimulatedTaints, down outages,
) (time.Duration, bool) {
	t.Helper()
	known := state.Tainted(node, noon)
	for i, step := range history[:len(history)-1] {
		if i > 0 {
			known = verdict.Advance(known, parseAll(t, step.Taints), verdict.SeenAt(noon.Add(step.At.Duration)))
		}
		v := state.Rule.Decide(state.FactsOf(pod, noon), known)
		at := down.after(max(v.Due.Sub(noon), step.At.Duration))
		if v.Leaves && at < history[i+1].At.Duration {
			return at, true
		}
	}
	return 0, false
}

func parseAll(t *testing.T, texts []string) (all []corev1.Taint) {
	t.Helper()
	for _, text := range texts {
		taint, err := taints.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, taint)
	}
	return all
}

// replicasAddUp checks the lowest numbers of ready replicas. Pods that leave together are not ready then, and neither
// are their successors. Without unreachable nodes, all other pods are ready.
func replicasAddUp(t *testing.T, made map[string]int, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	together, lost := map[string]map[time.Duration]int{}, map[string]int{}
	for _, pod := range report.Pods {
		if pod.Owner == nil || pod.LeavesAt == nil {
			continue
		}
		of := pod.Owner.Kind + pod.Owner.Name
		if together[of] == nil {
			together[of] = map[time.Duration]int{}
		}
		together[of][pod.LeavesAt.Duration]++
		lost[of]++
	}
	for _, w := range report.Workloads {
		of := w.Kind + w.Name
		for at, n := range together[of] {
			if w.Lowest > made[of]-n {
				t.Errorf("%+v has too many replicas: %d of %d pods leave at %s", w, n, made[of], at)
			}
		}
		if report.Summary.Unreachable == 0 && w.Lowest < w.Replicas-lost[of] {
			t.Errorf("%+v has too few replicas: %d pods leave", w, lost[of])
		}
		if w.LowestFor.Duration <= 0 || w.LowestAt.Duration+w.LowestFor.Duration > report.Until.Duration {
			t.Errorf("%+v does not add up in %s", w, report.Until.Duration)
		}
	}
}
