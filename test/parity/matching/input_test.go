// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"math"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// input is a pod's tolerations and the nodes that it could go to, whether the API server would accept them or not.
type input struct {
	Tolerations []corev1.Toleration
	Nodes       []node
}

type node struct {
	Taints []corev1.Taint
	// Unschedulable is spec.unschedulable, which kubectl cordon sets.
	Unschedulable bool
}

// taints returns the taints of the first node.
func (in input) taints() []corev1.Taint {
	if len(in.Nodes) == 0 {
		return nil
	}
	return in.Nodes[0].Taints
}

// The alphabets are small, so that matches are frequent.
var (
	keys = []string{"", "a", "a", "a", "b", "A", "example.com/a", "a ", "\xff", corev1.TaintNodeUnschedulable}

	effects = []corev1.TaintEffect{
		"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
		corev1.TaintEffectNoExecute, "noexecute", "NoScheduleNoAdmit",
	}

	operators = []corev1.TolerationOperator{
		"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpGt, corev1.TolerationOpLt,
		corev1.TolerationOpGt, corev1.TolerationOpLt, "In", "exists", "gt",
	}

	// integers are in their canonical form: borders of int64 and of what it is often mistaken for.
	integers = []string{
		"0", "1", "-1", "2", "9", "10", "2147483647", "2147483648", "-2147483649", "9007199254740993",
		"9223372036854775806", "9223372036854775807", "-9223372036854775807", "-9223372036854775808",
	}

	// words are not integers that fit an int64; some of them miss only by a hair.
	words = []string{
		"", "", "x", "X", "-", "+", "--1", "1-", "1.0", "1e3", "0x1", "1_0", "1,0", "NaN", "٣", "9223372036854775808",
		"-9223372036854775809", "18446744073709551616", "10000000000000000000", "-10000000000000000000",
	}

	// slips make something else of an integer that a lenient reader would still take for it.
	slips = []func(string) string{
		func(integer string) string { return "+" + integer },
		func(integer string) string { return "0" + integer },
		func(integer string) string { return "-0" + integer },
		func(integer string) string { return " " + integer },
		func(integer string) string { return integer + " " },
		func(integer string) string { return integer + "\n" },
	}
)

// generate makes anything, and more often than chance would what lies on a border.
func generate(r *rand.Rand) input {
	in := input{Tolerations: seed.List(r, 4, toleration)}
	switch r.IntN(8) {
	case 0: // nodes with the same taints: all counts are equal
		in.Nodes = slices.Repeat([]node{anyNode(r)}, 1+r.IntN(5))
	case 1: // no taints
		in.Nodes = make([]node, r.IntN(6))
	case 2: // everything is tolerated
		in.Nodes = seed.List(r, 6, anyNode)
		in.Tolerations = append(in.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	case 3:
		in.Nodes = seed.List(r, 60, anyNode)
	case 4: // up to 150 taints that only lower the score, so that shares of it are rounded
		in.Nodes = append([]node{preferOthers(r)}, seed.List(r, 2, preferOthers)...)
	default:
		in.Nodes = seed.List(r, 6, anyNode)
	}
	for i := range in.Tolerations {
		if taints := in.taints(); len(taints) > 0 && r.IntN(2) == 0 {
			in.Tolerations[i] = closeTo(r, seed.Pick(r, taints), in.Tolerations[i])
		}
		if r.IntN(4) == 0 {
			in.Tolerations[i].TolerationSeconds = new(int64(r.IntN(3) - 1)) // plays no part, not even when there is none left
		}
	}
	return in
}

func preferOthers(r *rand.Rand) node {
	return node{Taints: seed.List(r, 150, func(r *rand.Rand) corev1.Taint {
		return corev1.Taint{Key: seed.Pick(r, keys), Effect: corev1.TaintEffectPreferNoSchedule}
	})}
}

func anyNode(r *rand.Rand) node {
	// More often than not a taint only lowers the score, so that nodes pass the filter.
	effect := effects
	if r.IntN(2) == 0 {
		effect = []corev1.TaintEffect{corev1.TaintEffectPreferNoSchedule}
	}
	return node{Taints: seed.List(r, 5, func(r *rand.Rand) corev1.Taint {
		return corev1.Taint{Key: seed.Pick(r, keys), Value: value(r), Effect: seed.Pick(r, effect)}
	}), Unschedulable: r.IntN(4) == 0}
}

// closeTo makes each field of the toleration the taint's with a good chance.
func closeTo(r *rand.Rand, taint corev1.Taint, toleration corev1.Toleration) corev1.Toleration {
	if r.IntN(4) > 0 {
		toleration.Key = taint.Key
	}
	if r.IntN(4) > 0 {
		toleration.Effect = taint.Effect
	}
	if r.IntN(2) > 0 {
		toleration.Value = taint.Value
	}
	return toleration
}

func toleration(r *rand.Rand) corev1.Toleration {
	return corev1.Toleration{
		Key:      seed.Pick(r, keys),
		Operator: seed.Pick(r, operators),
		Value:    value(r),
		Effect:   seed.Pick(r, effects),
	}
}

func value(r *rand.Rand) string {
	switch r.IntN(5) {
	case 0:
		return seed.Pick(r, words)
	case 1:
		return seed.Pick(r, slips)(seed.Pick(r, integers))
	default:
		return seed.Pick(r, integers)
	}
}

// borders are counts near which a percentage is rounded another way, and the greatest whose hundredfold fits an int64.
var borders = []int{0, 0, 1, 2, 3, 7, 49, 50, 51, 99, 100, 101, 199, 200, 1000, math.MaxInt32, math.MaxInt64/int(taints.MaxNodeScore) - 1, math.MaxInt64 / int(taints.MaxNodeScore)}

func counts(r *rand.Rand) []int {
	return seed.List(r, 12, func(r *rand.Rand) int {
		if r.IntN(2) == 0 {
			return r.IntN(300)
		}
		return seed.Pick(r, borders)
	})
}
