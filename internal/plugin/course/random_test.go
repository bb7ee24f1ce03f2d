// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
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
