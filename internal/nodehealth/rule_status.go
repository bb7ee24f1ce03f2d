// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// statusOf returns the status of a rule by its newest plan.
func statusOf(object *v1alpha1.NodeTaintRule, verdict ruling, plan rulePlan) v1alpha1.NodeTaintRuleStatus {
	status := *object.Status.DeepCopy()
	status.ObservedGeneration = object.Generation
	status.Selected, status.Matching = int32(plan.selected), int32(plan.matching)
	status.Tainted, status.Held = int32(plan.tainted), int32(plan.held)
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: statusIf(verdict.accepted()),
		Reason: verdict.reason, Message: verdict.message, ObservedGeneration: object.Generation,
	})
	holding := metav1.Condition{
		Type: v1alpha1.ConditionHolding, Status: statusIf(plan.held > 0),
		Reason: v1alpha1.ReasonNoNodeHeld, Message: "No node waits for the taint.", ObservedGeneration: object.Generation,
	}
	if plan.held > 0 {
		holding.Reason, holding.Message = v1alpha1.ReasonMaxTainted, heldMessage(object, plan)
	}
	meta.SetStatusCondition(&status.Conditions, holding)
	return status
}

func statusIf(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// heldMessage says in a sentence why nodes wait.
func heldMessage(object *v1alpha1.NodeTaintRule, plan rulePlan) string {
	bound := fmt.Sprint(plan.bound)
	if text := object.Spec.MaxTainted.String(); text != bound {
		bound = fmt.Sprintf("%s, %d", text, plan.bound)
	}
	message := fmt.Sprintf("%s taint %s: the rule taints at most %s of the %d nodes that it selects.", nodesWait(plan.held), taintOf(object), bound, plan.selected)
	if plan.turnedDown > 0 {
		message += fmt.Sprintf(" Of those that wait, the API server has refused to have %d tainted; the log says why.", plan.turnedDown)
	}
	return message
}

func nodesWait(held int) string {
	if held == 1 {
		return "1 node waits for"
	}
	return fmt.Sprintf("%d nodes wait for", held)
}

func taintOf(object *v1alpha1.NodeTaintRule) string {
	return newRule(object, false, false).text
}

// saysHolding reports whether the status of a rule says that it holds nodes back.
func saysHolding(object *v1alpha1.NodeTaintRule) bool {
	return meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionHolding)
}

// saysRefused reports whether the status of a rule says that it is not accepted.
func saysRefused(object *v1alpha1.NodeTaintRule) bool {
	return meta.IsStatusConditionFalse(object.Status.Conditions, v1alpha1.ConditionAccepted)
}
