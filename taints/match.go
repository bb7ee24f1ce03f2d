// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// Matcher decides which tolerations match a taint. The zero value decides as Kubernetes 1.37 does by default.
// It is a value without state: copy it freely and use it from any number of goroutines.
type Matcher struct {
	// ComparisonOperators mirrors the feature gate TaintTolerationComparisonOperators (KEP-5471, alpha since 1.35, off by
	// default). With it, the operators Gt and Lt match when both values are decimal integers that fit an int64, written as
	// the API writes them (no plus sign, no leading zero), and the taint's value is the greater or the lesser one. Without
	// it, a toleration with Gt or Lt matches nothing.
	ComparisonOperators bool
}

// Tolerates reports whether the toleration matches the taint. Neither may be nil.
//
// The rule is [corev1.Toleration.ToleratesTaint]: an effect that is set must be the taint's, and so must a key; the
// operator Exists then matches any value, Equal or no operator an equal one. Unlike the API's own callers, it does not
// log Gt and Lt with a value that is not an integer: such a toleration simply does not match.
func (m Matcher) Tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	// Upstream's callers pass a real logger, and so log one error for every pod and taint at every evaluation.
	return toleration.ToleratesTaint(logr.Discard(), taint, m.ComparisonOperators)
}

// First finds the first toleration in list order that matches the taint. Its tolerationSeconds are those that the
// taint-eviction controller uses. Without a match it returns -1 and false. The taint must not be nil.
func (m Matcher) First(tolerations []corev1.Toleration, taint *corev1.Taint) (index int, ok bool) {
	for i := range tolerations {
		if m.Tolerates(&tolerations[i], taint) {
			return i, true
		}
	}
	return -1, false
}

// NoExecute returns the taints with effect NoExecute, in their order. Only these can make a running pod leave. It is
// nil when there are none.
func NoExecute(taints []corev1.Taint) []corev1.Taint {
	var subset []corev1.Taint
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectNoExecute {
			subset = append(subset, taints[i])
		}
	}
	return subset
}
