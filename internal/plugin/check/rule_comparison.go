// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// comparisonOperator: KEP-5471 is alpha and off by default in the API server, the scheduler and the controllers.
var comparisonOperator = Rule{
	ID:       "comparison-operator",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration compares with Gt or Lt",
	Advice:   "Use Equal or Exists, unless the feature gate TaintTolerationComparisonOperators is on in every component.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			if operator := list[i].Operator; operator != corev1.TolerationOpGt && operator != corev1.TolerationOpLt {
				return Finding{}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s matches nothing unless the feature gate TaintTolerationComparisonOperators is on. It is off by default.", literal(list[i]))}
		})
	},
}
