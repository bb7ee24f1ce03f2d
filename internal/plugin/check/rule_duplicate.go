// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// duplicateToleration: it does no harm, but editing one of the two may have no effect.
var duplicateToleration = Rule{
	ID:       "duplicate-toleration",
	Severity: cliv1alpha1.SeverityInfo,
	Title:    "A pod has the same toleration twice",
	Advice:   "Remove one of them, so that nobody edits the one that never counts.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			same := func(other corev1.Toleration) bool { return equal(other, list[i]) }
			if !slices.ContainsFunc(list[:i], same) {
				return Finding{}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s occurs more than once.", literal(list[i]))}
		})
	},
}
