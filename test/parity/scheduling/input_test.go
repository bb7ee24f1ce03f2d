// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling

import (
	"math"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// input is a pod and the nodes it could go to.
type input struct {
	Tolerations []corev1.Toleration
	Nodes       []node
}

type node struct {
	Taints []corev1.Taint
	// Unschedulable is spec.unschedulable, which kubectl cordon sets.
	Unschedulable bool
}

var (
	keys      = []string{"a", "b", "c", "d", corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady}
	values    = []string{"", "1", "2", "9223372036854775807", "x"}
	operators = []corev1.TolerationOperator{
		"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpExists, corev1.TolerationOpGt, corev1.TolerationOpLt, "In",
	}

	// taintEffects has PreferNoSchedule more often, so that nodes pass the filter and are scored.
	taintEffects = []corev1.TaintEffect{
		corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectPreferNoSchedule,
		corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, "", "NoScheduleNoAdmit",
	}
	tolerationEffects = append([]corev1.TaintEffect{"", ""}, taintEffects...)
)

// kinds are the borders that chance alone would seldom reach, and anything at all.
var kinds = []func(*rand.Rand) input{anything, anything, anything, alike, untainted, everythingTolerated, manyNodes, manyTaints}

func generate(r *rand.Rand) input {
	return seed.Pick(r, kinds)(r)
}

func anything(r *rand.Rand) input {
	return input{Tolerations: tolerations(r), Nodes: seed.List(r, 6, anyNode)}
}

// alike gives nodes with the same taints: all counts are equal.
func alike(r *rand.Rand) input {
	return input{Tolerations: tolerations(r), Nodes: slices.Repeat([]node{anyNode(r)}, 1+r.IntN(5))}
}

func untainted(r *rand.Rand) input {
	return input{Tolerations: tolerations(r), Nodes: make([]node, r.IntN(6))}
}

func everythingTolerated(r *rand.Rand) input {
	in := anything(r)
	in.Tolerations = append(in.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	return in
}

func manyNodes(r *rand.Rand) input {
	return input{Tolerations: tolerations(r), Nodes: seed.List(r, 60, anyNode)}
}

// manyTaints gives one to three nodes with up to 150 taints that only lower the score, so that shares of it are
// rounded.
func manyTaints(r *rand.Rand) input {
	return input{Tolerations: tolerations(r), Nodes: append([]node{preferOthers(r)}, seed.List(r, 2, preferOthers)...)}
}

func preferOthers(r *rand.Rand) node {
	return node{Taints: seed.List(r, 150, func(r *rand.Rand) corev1.Taint {
		return corev1.Taint{Key: seed.Pick(r, keys), Value: seed.Pick(r, values), Effect: corev1.TaintEffectPreferNoSchedule}
	})}
}

func anyNode(r *rand.Rand) node {
	return node{Taints: seed.List(r, 5, taint), Unschedulable: r.IntN(4) == 0}
}

func taint(r *rand.Rand) corev1.Taint {
	return corev1.Taint{Key: seed.Pick(r, keys), Value: seed.Pick(r, values), Effect: seed.Pick(r, taintEffects)}
}

func tolerations(r *rand.Rand) []corev1.Toleration {
	return seed.List(r, 6, toleration)
}

func toleration(r *rand.Rand) corev1.Toleration {
	toleration := corev1.Toleration{
		Key:      seed.Pick(r, keys),
		Operator: seed.Pick(r, operators),
		Value:    seed.Pick(r, values),
		Effect:   seed.Pick(r, tolerationEffects),
	}
	if r.IntN(4) == 0 {
		toleration.TolerationSeconds = new(int64(r.IntN(3) - 1)) // Plays no part, not even when there is none left.
	}
	return toleration
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
