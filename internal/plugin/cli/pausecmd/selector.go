// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package pausecmd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
)

// operators translates operators of label selectors on the command line into those of objects.
var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn,
	selection.NotEquals: metav1.LabelSelectorOpNotIn,
	selection.In:        metav1.LabelSelectorOpIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
	selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}

// selectorOf parses the value of a flag as a selector. It returns nil if the value is empty.
func selectorOf(flag, text string) (*v1alpha1.Selector, error) {
	parsed, err := labels.Parse(text)
	if err != nil {
		return nil, command.Usagef("--%s=%q: %w", flag, text, err)
	}
	requirements, _ := parsed.Requirements()
	if len(requirements) == 0 {
		return nil, nil
	}
	selector := &v1alpha1.Selector{}
	for _, requirement := range requirements {
		operator, ok := operators[requirement.Operator()]
		if !ok {
			return nil, command.Usagef("--%s=%q: EvictionPolicies do not support the operator %q: use =, !=, in or notin", flag, text, requirement.Operator())
		}
		next := v1alpha1.SelectorRequirement{Key: requirement.Key(), Operator: operator}
		for _, value := range requirement.ValuesUnsorted() {
			next.Values = append(next.Values, v1alpha1.LabelValue(value))
		}
		selector.MatchExpressions = append(selector.MatchExpressions, next)
	}
	return selector, nil
}
