// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// tellWhereTo adds to a plan where the successors of the pods that leave would go.
func tellWhereTo(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, outcome *course.Outcome) {
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

// addWhereTo counts where the successor of a pod would go.
func addWhereTo(summary *cliv1alpha1.PlanSummary, where *cliv1alpha1.WhereTo) {
	switch {
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
}
