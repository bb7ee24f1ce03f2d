// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

func (c *cluster) setRule(object *unstructured.Unstructured) {
	rule := &v1alpha1.NodeTaintRule{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, rule)
	row := newRuleRow(rule)
	if err != nil {
		row = ruleRow{ID: object.GetName(), Problem: sentence.Printable(fmt.Sprintf("It cannot be read: %v.", err))}
	}
	c.rules[object.GetUID()] = row
}

func newRuleRow(rule *v1alpha1.NodeTaintRule) ruleRow {
	spec, status := &rule.Spec, &rule.Status
	taint := corev1.Taint{Key: spec.Taint.Key, Value: spec.Taint.Value, Effect: spec.Taint.Effect}
	row := ruleRow{
		ID: rule.Name, Condition: sentence.Printable(conditionOf(spec.Condition)),
		Taint: sentence.Printable(taints.Format(taint)), DryRun: spec.DryRun,
		Selected: status.Selected, Matching: status.Matching, Tainted: status.Tainted, Held: status.Held,
	}
	if spec.MaxTainted != nil {
		row.Most = spec.MaxTainted.String()
	}
	accepted := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted)
	holding := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHolding)
	switch {
	case accepted == nil:
		row.Problem = "no controller has processed it yet: Taintkeeper does so only in enforce mode, with the controller node-taint-rule"
	case accepted.Status != metav1.ConditionTrue:
		row.Problem = sentence.Printable(cmp.Or(accepted.Message, accepted.Reason))
	case holding != nil && holding.Status == metav1.ConditionTrue:
		row.Problem = sentence.Printable(cmp.Or(holding.Message, holding.Reason))
	}
	return row
}

// conditionOf returns the condition that causes the taint, for example KernelDeadlock=True (DockerHung, KubeletHung).
func conditionOf(condition v1alpha1.NodeTaintRuleCondition) string {
	text := fmt.Sprintf("%s=%s", condition.Type, condition.Status)
	if len(condition.Reasons) > 0 {
		text += fmt.Sprintf(" (%s)", strings.Join(condition.Reasons, ", "))
	}
	return text
}
