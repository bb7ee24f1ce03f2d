// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Rule decides in all commands. Pods whose tolerations compare with Gt or Lt exist only if the API server has the
// feature gate TaintTolerationComparisonOperators, so the rule assumes the gate too.
var Rule = verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: true}}

// Compares reports whether a toleration compares numbers.
func Compares(tolerations []corev1.Toleration) bool {
	return slices.ContainsFunc(tolerations, func(toleration corev1.Toleration) bool {
		return toleration.Operator == corev1.TolerationOpGt || toleration.Operator == corev1.TolerationOpLt
	})
}

// ComparisonNotes says what Rule assumes if some pods have tolerations that compare.
func ComparisonNotes(pods int) []string {
	if pods == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Tolerations of %s use Gt or Lt. The API server accepts them only with the feature gate "+
		"TaintTolerationComparisonOperators, so this answer assumes that the controllers have the gate on too.",
		sentence.Counted(pods, "pod"))}
}
