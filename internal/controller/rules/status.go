// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// statusOf returns the status of a rule according to its newest plan.
func statusOf(object *v1alpha1.NodeTaintRule, p planned) v1alpha1.NodeTaintRuleStatus {
	plan, verdict, generation := p.outcome, p.verdict, p.object.Generation
	status := *object.Status.DeepCopy()
	status.ObservedGeneration = generation
	status.Selected, status.Matching = int32(plan.selected), int32(plan.matching)
	status.Tainted, status.Held = int32(plan.tainted), int32(plan.held)
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: statusIf(verdict.accepted()),
		Reason: verdict.reason, Message: verdict.message, ObservedGeneration: generation,
	})
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionHolding, Status: statusIf(plan.held > 0),
		Reason: plan.holding(), Message: heldMessage(p), ObservedGeneration: generation,
	})
	return status
}

func statusIf(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// heldMessage explains in sentences why nodes wait.
func heldMessage(p planned) string {
	plan := p.outcome
	var sentences []string
	if waiting := plan.held - plan.refused; waiting > 0 {
		bound := fmt.Sprint(plan.bound)
		if text := p.rule.spec.MaxTainted.String(); text != bound {
			bound = fmt.Sprintf("%d (%s)", plan.bound, text)
		}
		sentences = append(sentences, fmt.Sprintf("%s for taint %s: the rule selects %s and taints at most %s.",
			sentence.Do(waiting, "node", "waits", "wait"), p.rule.text, sentence.Counted(plan.selected, "node"), bound))
	}
	if plan.refused > 0 {
		sentences = append(sentences, fmt.Sprintf("%s cannot get taint %s; Taintkeeper retries every minute. For node %s, the API server says: %s",
			sentence.Counted(plan.refused, "node"), p.rule.text, plan.example, plan.why))
	}
	if len(sentences) == 0 {
		return "No node waits for the taint."
	}
	return strings.Join(sentences, " ")
}

// saysHolding returns what the status of a rule says about nodes that wait, as a reason.
func saysHolding(object *v1alpha1.NodeTaintRule) string {
	if said := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionHolding); said != nil {
		return said.Reason
	}
	return v1alpha1.ReasonNoNodeHeld
}

// saysRefused returns the reason for which the rule is not accepted according to its status, or empty.
func saysRefused(object *v1alpha1.NodeTaintRule) string {
	said := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionAccepted)
	if said == nil || said.Status != metav1.ConditionFalse {
		return ""
	}
	return said.Reason
}
