// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// right is embedded by the matchers that are wrong in one respect.
type right struct{ taints.Matcher }

type ignoresEffects struct{ right }

func (m ignoresEffects) Tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	withoutEffect := *toleration
	withoutEffect.Effect = ""
	return m.right.Tolerates(&withoutEffect, taint)
}

type includesEquals struct{ right }

func (m includesEquals) Tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	_, number := int64Of(taint.Value)
	same := documentedValue(corev1.Toleration{Value: toleration.Value}, taint.Value, true)
	compares := toleration.Operator == corev1.TolerationOpGt && toleration.Key == taint.Key && toleration.Effect == taint.Effect
	return compares && number && same || m.right.Tolerates(toleration, taint)
}

type readsLeniently struct{ right }

func (m readsLeniently) Tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	canonicalTaint := *taint
	if number, err := strconv.ParseInt(taint.Value, 10, 64); err == nil && toleration.Operator == corev1.TolerationOpLt {
		canonicalTaint.Value = strconv.FormatInt(number, 10)
	}
	return m.right.Tolerates(toleration, &canonicalTaint)
}

type takesTheLast struct{ right }

func (m takesTheLast) First(tolerations []corev1.Toleration, taint *corev1.Taint) (int, bool) {
	for i := len(tolerations) - 1; i >= 0; i-- {
		if m.Tolerates(&tolerations[i], taint) {
			return i, true
		}
	}
	return -1, false
}

type forgetsNoExecute struct{ right }

func (m forgetsNoExecute) Untolerated(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
	for i := range all {
		if _, ok := m.First(tolerations, &all[i]); !ok && all[i].Effect == corev1.TaintEffectNoSchedule {
			return all[i], true
		}
	}
	return corev1.Taint{}, false
}

func TestAWrongMatcherIsFoundAndItsInputMadeSmall(t *testing.T) {
	tests := []struct {
		name  string
		ours  matcher
		check func(comparison) func(input) error
		// tolerations and taints are how many of each the smallest input has.
		tolerations, taints int
	}{
		{"the effect is ignored", ignoresEffects{right{taints.Matcher{ComparisonOperators: true}}}, pairs, 1, 1},
		{"Gt matches an equal value", includesEquals{right{taints.Matcher{ComparisonOperators: true}}}, pairs, 1, 1},
		{"Lt reads 01 and +1", readsLeniently{right{taints.Matcher{ComparisonOperators: true}}}, pairs, 1, 1},
		{"Gt and Lt are off", right{taints.Matcher{}}, pairs, 1, 1},
		{"the last toleration is taken", takesTheLast{right{taints.Matcher{ComparisonOperators: true}}}, first, 2, 1},
		{"NoExecute does not keep pods away", forgetsNoExecute{right{taints.Matcher{ComparisonOperators: true}}}, untolerated, 0, 1},
	}
	c := compareWith(t, withOperators)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c.ours = test.ours
			found := c.property(test.check(c)).Search(1, 5000)
			if found == nil {
				t.Fatal("not found")
			}
			if smallest := found.Smallest; len(smallest.Tolerations) != test.tolerations || len(smallest.Taints) != test.taints {
				t.Errorf("not the smallest input that shows it: %+v", smallest)
			}
			t.Logf("input %d shows it: %v", found.Index, found.Err)
		})
	}
}

func pairs(c comparison) func(input) error       { return c.checkPairs }
func first(c comparison) func(input) error       { return c.checkFirst }
func untolerated(c comparison) func(input) error { return c.checkUntolerated }

func TestTheGeneratedInputsReachEveryOperatorAndOutcome(t *testing.T) {
	type branch struct {
		operator corev1.TolerationOperator
		matches  bool
	}
	reached := map[branch]int{}
	for i := range 5000 {
		in := generate(rand.New(rand.NewPCG(1, uint64(i))))
		for _, toleration := range in.Tolerations {
			for _, taint := range in.Taints {
				reached[branch{toleration.Operator, documented(toleration, taint, true)}]++
			}
		}
	}
	for _, operator := range []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpGt, corev1.TolerationOpLt} {
		for _, matches := range []bool{false, true} {
			if count := reached[branch{operator, matches}]; count < 50 {
				t.Errorf("operator %q with match %t comes %d times only", operator, matches, count)
			}
		}
	}
}
