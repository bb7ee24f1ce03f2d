// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// wrong is a matcher that is wrong in one respect, which is not nil.
type wrong struct {
	taints.Matcher

	tolerates   func(toleration corev1.Toleration, taint corev1.Taint) bool
	first       func(tolerations []corev1.Toleration, taint *corev1.Taint) (int, bool)
	untolerated func(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool)
}

func (w wrong) Tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	if w.tolerates != nil {
		return w.tolerates(*toleration, *taint)
	}
	return w.Matcher.Tolerates(toleration, taint)
}

func (w wrong) First(tolerations []corev1.Toleration, taint *corev1.Taint) (int, bool) {
	if w.first != nil {
		return w.first(tolerations, taint)
	}
	return w.Matcher.First(tolerations, taint)
}

func (w wrong) Untolerated(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
	if w.untolerated != nil {
		return w.untolerated(all, tolerations)
	}
	return w.Matcher.Untolerated(all, tolerations)
}

func TestAWrongMatcherIsFoundAndItsInputMadeSmall(t *testing.T) {
	right := taints.Matcher{ComparisonOperators: true}
	c := compareWith(t, true)
	for name, test := range map[string]struct {
		wrong wrong
		check func(comparison, input) error
		// tolerations and taints are how many of each the smallest input has.
		tolerations, taints int
	}{
		"the effect is ignored": {wrong{tolerates: func(toleration corev1.Toleration, taint corev1.Taint) bool {
			toleration.Effect = ""
			return right.Tolerates(&toleration, &taint)
		}}, comparison.checkPairs, 1, 1},
		"Gt matches an equal value": {wrong{tolerates: func(toleration corev1.Toleration, taint corev1.Taint) bool {
			_, number := int64Of(taint.Value)
			compares := toleration.Operator == corev1.TolerationOpGt && toleration.Key == taint.Key && toleration.Effect == taint.Effect
			return compares && number && toleration.Value == taint.Value || right.Tolerates(&toleration, &taint)
		}}, comparison.checkPairs, 1, 1},
		"Lt reads 01 and +1": {wrong{tolerates: func(toleration corev1.Toleration, taint corev1.Taint) bool {
			if number, err := strconv.ParseInt(taint.Value, 10, 64); err == nil && toleration.Operator == corev1.TolerationOpLt {
				taint.Value = strconv.FormatInt(number, 10)
			}
			return right.Tolerates(&toleration, &taint)
		}}, comparison.checkPairs, 1, 1},
		"Gt and Lt are off": {wrong{}, comparison.checkPairs, 1, 1},
		"the last toleration is taken": {wrong{Matcher: right, first: func(tolerations []corev1.Toleration, taint *corev1.Taint) (int, bool) {
			for i := range slices.Backward(tolerations) {
				if right.Tolerates(&tolerations[i], taint) {
					return i, true
				}
			}
			return -1, false
		}}, comparison.checkFirst, 2, 1},
		"NoExecute does not keep pods away": {wrong{untolerated: func(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
			all = slices.DeleteFunc(slices.Clone(all), func(taint corev1.Taint) bool { return taint.Effect == corev1.TaintEffectNoExecute })
			return right.Untolerated(all, tolerations)
		}}, comparison.checkUntolerated, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.ours = test.wrong
			smallest := c.property(func(in input) error { return test.check(c, in) }).MustFind(t, 5000).Smallest
			if len(smallest.Tolerations) != test.tolerations || len(smallest.Taints) != test.taints {
				t.Errorf("not the smallest input that shows it: %+v", smallest)
			}
		})
	}
}

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
