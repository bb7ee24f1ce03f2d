// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// weigh adds what a plan means for nodes, workloads and budgets, and counts.
func weigh(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, outcome *course.Outcome) {
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range cluster.Pods {
		pods[pod.UID] = pod
	}
	for _, pod := range plan.Leaving() {
		pod.Lost = departs(pod) && state.IsBare(pods[pod.UID])
		pod.LocalData = departs(pod) && state.HasLocalData(pods[pod.UID])
	}
	weighNodes(plan, outcome, pods)
	weighWorkloads(plan, outcome)
	weighBudgets(plan, cluster, outcome, pods)
	plan.Summary = summaryOf(plan)
}

func weighNodes(plan *cliv1alpha1.TaintPlan, outcome *course.Outcome, pods map[types.UID]*corev1.Pod) {
	leave, stay := map[string]int{}, map[string]int{}
	static := map[string]int{}
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		switch {
		case departs(pod):
			leave[pod.Node]++
		case state.IsStatic(pods[pod.UID]):
			static[pod.Node]++
		default:
			stay[pod.Node]++
		}
	}
	for i := range plan.Nodes {
		node := &plan.Nodes[i]
		node.Leave, node.Pods = leave[node.Name], leave[node.Name]+stay[node.Name]+static[node.Name]
		node.Emptied = node.Leave > 0 && stay[node.Name]+outcome.Came[node.Name] == 0
	}
}

// departs reports whether a pod leaves if nothing but the time changes. A pod that policies hold without end does not.
func departs(pod *cliv1alpha1.PlannedPod) bool {
	return pod.Leaves && (pod.Answer == nil || pod.Answer.LeavesAt != nil)
}

// weighWorkloads adds the workloads that lose ready replicas, the worst first.
func weighWorkloads(plan *cliv1alpha1.TaintPlan, outcome *course.Outcome) {
	plan.Workloads = outcome.Workloads
	slices.SortFunc(plan.Workloads, func(a, b cliv1alpha1.PlannedWorkload) int {
		return cmp.Or(cmp.Compare(min(a.Lowest, 1), min(b.Lowest, 1)), cmp.Compare(b.Leave, a.Leave),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

func weighBudgets(
	plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, outcome *course.Outcome, pods map[types.UID]*corev1.Pod,
) {
	covers := state.CoverageOf(cluster.Budgets)
	weighed := map[string]*cliv1alpha1.PlannedBudget{}
	for _, planned := range plan.Leaving() {
		pod := pods[planned.UID]
		if !departs(planned) || state.IsOver(pod) {
			continue
		}
		for _, budget := range covers.Of(pod.Namespace, pod.Labels) {
			planned.Budgets = append(planned.Budgets, budget.Name)
			key := budget.Namespace + "/" + budget.Name
			if weighed[key] == nil {
				weighed[key] = &cliv1alpha1.PlannedBudget{
					Namespace: budget.Namespace, Name: budget.Name,
					Allowed: int32(outcome.Budgets[key].Allowed),
					Breach:  max(outcome.Budgets[key].Missing-outcome.Budgets[key].Allowed, 0),
				}
			}
			weighed[key].Leave++
			weighed[key].Asked += count(asksBudget(planned.Answer))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(weighed)) {
		plan.Budgets = append(plan.Budgets, *weighed[key])
	}
}

func summaryOf(plan *cliv1alpha1.TaintPlan) cliv1alpha1.PlanSummary {
	summary := cliv1alpha1.PlanSummary{Nodes: len(plan.Nodes), Pods: len(plan.Pods), Preempted: len(plan.Preempted)}
	for _, node := range plan.Nodes {
		summary.Emptied += count(node.Emptied)
	}
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		summary.Changed += count(pod.Change != cliv1alpha1.ChangeNone)
		addWhereTo(&summary, pod.WhereTo)
		if pod.Leaves {
			summary.Leave++
			summary.AtOnce += count(!pod.Due.After(plan.At.Time))
			summary.Last = pod.Due
		}
	}
	for _, pod := range plan.Leaving() {
		summary.PodsLost += count(pod.Lost)
		summary.LocalData += count(pod.LocalData)
	}
	for _, workload := range plan.Workloads {
		summary.WorkloadsLost += count(workload.Lowest == 0)
	}
	for _, budget := range plan.Budgets {
		summary.BudgetsBreached += count(budget.Breach > 0)
	}
	return summary
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// asksBudget reports whether a policy asks the PodDisruptionBudgets of a pod before it leaves.
func asksBudget(answer *cliv1alpha1.PolicyAnswer) bool {
	if answer == nil {
		return false
	}
	switch policy.Why(answer.Reason) {
	case policy.Budget, policy.BudgetBusy, policy.SeveralBudgets:
		return true
	}
	return answer.Says == cliv1alpha1.PolicyAsk
}
