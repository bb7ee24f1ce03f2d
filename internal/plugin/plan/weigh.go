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
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// weigh adds what a plan means for nodes, workloads and budgets, and counts.
func weigh(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster) {
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range cluster.Pods {
		pods[pod.UID] = pod
	}
	for _, pod := range plan.Leaving() {
		pod.Lost = departs(pod) && state.IsBare(pods[pod.UID])
		pod.LocalData = departs(pod) && state.HasLocalData(pods[pod.UID])
	}
	weighNodes(plan, pods)
	weighWorkloads(plan, cluster)
	weighBudgets(plan, cluster, pods)
	plan.Summary = summaryOf(plan)
}

func weighNodes(plan *cliv1alpha1.TaintPlan, pods map[types.UID]*corev1.Pod) {
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
		node.Emptied = node.Leave > 0 && stay[node.Name] == 0
	}
}

// departs reports whether a pod leaves if nothing but the time changes. A pod that policies hold without end does not.
func departs(pod *cliv1alpha1.PlannedPod) bool {
	return pod.Leaves && (pod.Answer == nil || pod.Answer.LeavesAt != nil)
}

// workloadKey identifies a workload in the cluster.
type workloadKey struct {
	namespace string
	owner     cliv1alpha1.Owner
}

func weighWorkloads(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster) {
	leaving := map[types.UID]bool{}
	workloads := map[workloadKey]*cliv1alpha1.PlannedWorkload{}
	for _, pod := range plan.Leaving() {
		if departs(pod) && pod.Owner != nil {
			leaving[pod.UID] = true
			key := workloadKey{pod.Namespace, *pod.Owner}
			workloads[key] = &cliv1alpha1.PlannedWorkload{Owner: *pod.Owner, Namespace: pod.Namespace}
		}
	}
	if len(workloads) == 0 {
		return
	}
	for _, pod := range cluster.Pods {
		owner := cluster.Owner(pod)
		if owner == nil || state.IsOver(pod) || !state.IsReady(pod) { // a pod that is not ready serves nobody
			continue
		}
		if workload := workloads[workloadKey{pod.Namespace, *owner}]; workload != nil {
			workload.Replicas++
			workload.Leave += count(leaving[pod.UID])
		}
	}
	for workload := range maps.Values(workloads) {
		if workload.Leave > 0 { // otherwise only pods of it leave that have finished or are not ready
			plan.Workloads = append(plan.Workloads, *workload)
		}
	}
	slices.SortFunc(plan.Workloads, func(a, b cliv1alpha1.PlannedWorkload) int {
		return cmp.Or(cmp.Compare(left(a), left(b)), cmp.Compare(b.Leave, a.Leave),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// left is 0 for a workload that loses every replica, and 1 for others.
func left(w cliv1alpha1.PlannedWorkload) int { return min(w.Replicas-w.Leave, 1) }

func weighBudgets(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, pods map[types.UID]*corev1.Pod) {
	covers := state.CoverageOf(cluster.Budgets)
	weighed := map[string]*cliv1alpha1.PlannedBudget{}
	disrupted := map[string]int{}
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
					Namespace: budget.Namespace, Name: budget.Name, Allowed: budget.Status.DisruptionsAllowed,
				}
			}
			weighed[key].Leave++
			switch {
			case asksBudget(planned.Answer):
				weighed[key].Asked++
			case state.IsReady(pod):
				disrupted[key]++
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(weighed)) {
		budget := weighed[key]
		budget.Breach = max(disrupted[key]-int(budget.Allowed), 0)
		plan.Budgets = append(plan.Budgets, *budget)
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
		summary.WorkloadsLost += count(left(workload) == 0)
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
