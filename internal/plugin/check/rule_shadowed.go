// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// shadowedToleration: if several tolerations match a taint, the first in the list counts, not the narrower or longer
// one.
var shadowedToleration = Rule{
	ID:       "shadowed-toleration",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration never counts, because an earlier one matches",
	Advice:   "Put the narrower toleration first, or remove it.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			by := shadowOf(list, i)
			if by < 0 || sameSeconds(list[by], list[i]) {
				return Finding{}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s never counts, because %s comes before it and matches the same taints: pods stay %s, not %s.",
				literal(list[i]), literal(list[by]), stay(list[by]), stay(list[i]))}
		})
	},
}

// shadowOf returns the index of the first toleration before the one at i that matches everything that this one matches,
// or -1.
func shadowOf(list []corev1.Toleration, i int) int {
	if len(faultsOf(list[i])) > 0 {
		return -1
	}
	for earlier := range i {
		if covers(list[earlier], list[i]) && !equal(list[earlier], list[i]) {
			return earlier
		}
	}
	return -1
}

// covers reports whether one toleration matches every taint that another matches, for Equal and Exists.
func covers(wide, narrow corev1.Toleration) bool {
	switch {
	case wide.Effect != "" && wide.Effect != narrow.Effect, wide.Key != "" && wide.Key != narrow.Key:
		return false
	case wide.Operator == corev1.TolerationOpExists:
		return true
	}
	return isEqual(wide) && isEqual(narrow) && wide.Key == narrow.Key && wide.Value == narrow.Value
}

// stay says how long pods with a toleration stay.
func stay(t corev1.Toleration) string {
	if t.TolerationSeconds == nil {
		return "indefinitely"
	}
	return fmt.Sprintf("for %d s", max(*t.TolerationSeconds, 0))
}
