// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// malformedToleration: the API server now rejects these. They occur in files, and in pods from before it did.
var malformedToleration = Rule{
	ID:       "malformed-toleration",
	Severity: cliv1alpha1.SeverityError,
	Title:    "A toleration is malformed",
	Advice:   "Rewrite the toleration: the API server refuses it.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			faults := faultsOf(list[i])
			if len(faults) == 0 {
				return Finding{}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s: %s.", literal(list[i]), strings.Join(faults, ", and "))}
		})
	},
}

var (
	operators = []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpGt, corev1.TolerationOpLt}
	effects   = []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
)

// faultsOf says what is wrong with a toleration, and what it therefore matches or does not match.
func faultsOf(t corev1.Toleration) []string {
	var faults []string
	for _, fault := range []struct {
		is   bool
		says string
	}{
		{!slices.Contains(operators, t.Operator), fmt.Sprintf("there is no operator %q, so it matches nothing", t.Operator)},
		{!slices.Contains(effects, t.Effect), fmt.Sprintf("there is no effect %q, so it matches nothing", t.Effect)},
		{t.Operator == corev1.TolerationOpExists && t.Value != "", "operator Exists ignores the value, so it matches every value"},
		{t.Key == "" && isEqual(t), "operator Equal needs a key; without one it matches taints of any key that have this value"},
		{t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute, "tolerationSeconds are allowed only with effect NoExecute"},
		{t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0, "no taint can have this key, so it matches nothing"},
		{isEqual(t) && len(validation.IsValidLabelValue(t.Value)) > 0, "no taint can have this value, so it matches nothing"},
	} {
		if fault.is {
			faults = append(faults, fault.says)
		}
	}
	return faults
}

func isEqual(t corev1.Toleration) bool {
	return t.Operator == "" || t.Operator == corev1.TolerationOpEqual
}
