// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// input is a pod's tolerations and a node's taints, whether the API server would accept them or not.
type input struct {
	Tolerations []corev1.Toleration
	Taints      []corev1.Taint
}

// The alphabets are small, so that matches are frequent.
var (
	keys = []string{"", "a", "a", "a", "b", "A", "example.com/a", "a ", "\xff"}

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

func generate(r *rand.Rand) input {
	in := input{
		Tolerations: seed.List(r, 4, toleration),
		Taints:      seed.List(r, 4, taint),
	}
	for i := range in.Tolerations {
		if len(in.Taints) > 0 && r.IntN(2) == 0 {
			in.Tolerations[i] = closeTo(r, seed.Pick(r, in.Taints), in.Tolerations[i])
		}
	}
	return in
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

func taint(r *rand.Rand) corev1.Taint {
	return corev1.Taint{
		Key:    seed.Pick(r, keys),
		Value:  value(r),
		Effect: seed.Pick(r, effects),
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
