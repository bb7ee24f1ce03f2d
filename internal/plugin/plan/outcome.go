// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// addPolicies adds to a plan what the EvictionPolicies do with the pods that leave, and what happens to those that
// pauses and open breakers keep when all of these end.
func addPolicies(plan *cliv1alpha1.TaintPlan, outcome *course.Outcome) {
	set, at := outcome.Policies, plan.At.Time
	plan.Notes = append(plan.Notes, set.Flaws...)
	planned := map[string]*cliv1alpha1.PlannedPolicy{}
	for _, p := range set.All {
		is := outcome.Trips[p.Name]
		is.Name, is.Pace = p.Name, policies.PaceOf(p)
		planned[p.Name] = &is
	}
	var release policies.Release
	halted, resumed := 0, set.Resumed()
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		is := outcome.Pods[pod.UID]
		if is == nil {
			continue
		}
		pod.Answer = policies.AnswerOf(is.Course)
		tally(planned, is, pod.Answer)
		if is.Halted() {
			halted++
			release.Add(set.AfterHalts(resumed, is.Candidate, at), at)
		}
	}
	if halted > 0 {
		plan.Resumed = &cliv1alpha1.PlannedResume{
			Pods: halted, Leave: release.Leave, Asked: release.Asked, Late: release.Late,
			LateFrom: metav1.Duration{Duration: release.First}, LateTo: metav1.Duration{Duration: release.Last},
		}
	}
	for _, p := range set.All {
		if is := planned[p.Name]; is.Pods > 0 || is.Trips != "" {
			plan.Policies = append(plan.Policies, *is)
		}
	}
}

// tally counts a pod that leaves for the policies that select it, and for the one that answers when it is due.
func tally(
	planned map[string]*cliv1alpha1.PlannedPolicy, pod *course.Selected, answer *cliv1alpha1.PolicyAnswer,
) {
	for _, p := range pod.By {
		if _, applies := p.Due(pod.Causes); !applies {
			continue
		}
		is := planned[p.Name]
		is.Pods++
		if p.Pace() != nil && !p.DryRun && (is.LastAt == nil || is.LastAt.Time.Before(pod.Leaves)) {
			is.LastAt = policies.MicroTime(pod.Leaves)
		}
	}
	of := planned[pod.First.Policy]
	switch {
	case of == nil:
	case pod.First.Step == policy.Ask, pod.Asks && (pod.First.Why == policy.Paced || asksBudget(answer)): // maybe later
		of.Asked++
	case pod.First.Why != policy.Paced:
		of.Held += count(pod.First.Stays())
	}
}

// weigh adds what a plan means for nodes, workloads and budgets, and counts. The workloads that lose most come first.
func weigh(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, outcome *course.Outcome) {
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range cluster.Pods {
		pods[pod.UID] = pod
	}
	for _, pod := range plan.Leaving() {
		pod.Lost = departs(pod) && state.IsBare(pods[pod.UID])
		pod.LocalData = departs(pod) && state.HasLocalData(pods[pod.UID])
	}
	all, leave, stay := map[string]int{}, map[string]int{}, map[string]int{} // by node
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		all[pod.Node]++
		leave[pod.Node] += count(departs(pod))
		stay[pod.Node] += count(!departs(pod) && !state.IsStatic(pods[pod.UID]))
	}
	for i := range plan.Nodes {
		node := &plan.Nodes[i]
		node.Leave, node.Pods = leave[node.Name], all[node.Name]
		node.Emptied = node.Leave > 0 && stay[node.Name]+outcome.Came[node.Name] == 0
	}
	plan.Workloads = outcome.Workloads
	slices.SortFunc(plan.Workloads, func(a, b cliv1alpha1.PlannedWorkload) int {
		return cmp.Or(cmp.Compare(min(a.Lowest, 1), min(b.Lowest, 1)), cmp.Compare(b.Leave, a.Leave),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	weighBudgets(plan, cluster, outcome, pods)
	plan.Summary = summaryOf(plan)
}

// departs reports whether a pod leaves if nothing but the time changes. A pod that policies hold without end does not.
func departs(pod *cliv1alpha1.PlannedPod) bool {
	return pod.Leaves && (pod.Answer == nil || pod.Answer.LeavesAt != nil)
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
				weighed[key] = new(outcome.Budgets[key])
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
		switch where := pod.WhereTo; {
		case where == nil:
		case where.NoSuccessor:
			summary.NoSuccessor++
		case where.Reason != "":
		case where.Bound:
			summary.Bounds++
		case where.Node == "":
			summary.Nowhere++
		default:
			summary.Placed++
			summary.LeaveAgain += count(where.LeavesAgain)
		}
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

// addWhereTo adds to a plan where the successors of the pods that leave would go.
func addWhereTo(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, outcome *course.Outcome) {
	succeeded, bounds := map[types.UID]bool{}, 0
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		where := outcome.WhereTo[pod.UID]
		if !pod.Leaves || where == nil {
			continue
		}
		own := *where // equal pods share it
		own.Warnings = slices.Clone(where.Warnings)
		pod.WhereTo, succeeded[pod.UID] = &own, !where.NoSuccessor
		bounds += count(where.Bound)
	}
	plan.Preempted = preempted(plan, cluster, outcome)
	placement.WarnOfSpread(plan, cluster)
	var pods []*corev1.Pod
	for _, pod := range cluster.Pods {
		if succeeded[pod.UID] {
			pods = append(pods, pod)
		}
	}
	plan.Notes = append(plan.Notes, placement.Notes(cluster, pods, outcome.Late, bounds)...)
}

// preempted returns the pods that make room for successors and need not leave otherwise, in the order of the course.
func preempted(
	plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, outcome *course.Outcome,
) (all []cliv1alpha1.PlannedPod) {
	leaves := map[types.UID]bool{}
	for i := range plan.Pods {
		leaves[plan.Pods[i].UID] = plan.Pods[i].Leaves
	}
	for _, is := range outcome.Preempted {
		if leaves[is.Pod.UID] {
			continue
		}
		pod := describe(is.Pod, is.Pod.Spec.NodeName)
		pod.Owner, pod.Leaves, pod.Due = cluster.Owner(is.Pod), true, new(metav1.NewMicroTime(is.At))
		pod.WhereTo = outcome.WhereTo[is.Pod.UID]
		pod.Reason = "The scheduler preempts it to make room for a pod of higher priority."
		if is.By != nil {
			pod.Reason = fmt.Sprintf("The scheduler preempts it to make room for the successor of %s/%s.", is.By.Namespace, is.By.Name)
		}
		all = append(all, pod)
	}
	return all
}
