// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"math/big"
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

// canonical is an integer as people write it: no plus, no leading zeros, no minus zero, nothing around it.
var canonical = regexp.MustCompile(`\A(0|-?[1-9][0-9]*)\z`)

// documented is the rule as Kubernetes documents it for pods (and KEP-5471 for Gt and Lt), with nothing in common with
// upstream's code but the types.
func documented(toleration corev1.Toleration, taint corev1.Taint, comparisons bool) bool {
	matchesEffect := toleration.Effect == "" || toleration.Effect == taint.Effect
	matchesKey := toleration.Key == "" || toleration.Key == taint.Key
	return matchesEffect && matchesKey && documentedValue(toleration, taint.Value, comparisons)
}

func documentedValue(toleration corev1.Toleration, value string, comparisons bool) bool {
	switch toleration.Operator {
	case "Exists":
		return true
	case "Equal", "":
		return value == toleration.Value
	case "Gt":
		return comparisons && compare(value, toleration.Value) == greater
	case "Lt":
		return comparisons && compare(value, toleration.Value) == less
	default:
		return false
	}
}

type order int

const (
	incomparable order = iota
	less
	equal
	greater
)

// compare puts two integers in order. What is not one, or does not fit an int64, has no order.
func compare(a, b string) order {
	x, okX := int64Of(a)
	y, okY := int64Of(b)
	if !okX || !okY {
		return incomparable
	}
	return equal + order(x.Cmp(y))
}

func int64Of(text string) (*big.Int, bool) {
	if !canonical.MatchString(text) {
		return nil, false
	}
	integer, ok := new(big.Int).SetString(text, 10)
	return integer, ok && integer.IsInt64()
}
