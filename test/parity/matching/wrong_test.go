// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// wrong is rules that are wrong in one respect, which is not nil.
type wrong struct {
	ours

	tolerates   func(toleration corev1.Toleration, taint corev1.Taint) bool
	first       func(tolerations []corev1.Toleration, taint *corev1.Taint) (int, bool)
	untolerated func(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool)
	count       func(all []corev1.Taint, tolerations []corev1.Toleration) int
	normalize   func(counts []int) []int64
}

func (w wrong) Tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	if w.tolerates != nil {
		return w.tolerates(*toleration, *taint)
	}
	return w.ours.Tolerates(toleration, taint)
}

func (w wrong) First(tolerations []corev1.Toleration, taint *corev1.Taint) (int, bool) {
	if w.first != nil {
		return w.first(tolerations, taint)
	}
	return w.ours.First(tolerations, taint)
}

func (w wrong) Untolerated(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
	if w.untolerated != nil {
		return w.untolerated(all, tolerations)
	}
	return w.ours.Untolerated(all, tolerations)
}

func (w wrong) CountIntolerable(all []corev1.Taint, tolerations []corev1.Toleration) int {
	if w.count != nil {
		return w.count(all, tolerations)
	}
	return w.ours.CountIntolerable(all, tolerations)
}

func (w wrong) Normalize(counts []int) []int64 {
	if w.normalize != nil {
		return w.normalize(counts)
	}
	return w.ours.Normalize(counts)
}

func roundsDownToTheEven(counts []int) []int64 {
	scores := taints.Normalize(counts)
	for i, score := range scores {
		if score > 0 && score < taints.MaxNodeScore && score%2 == 1 {
			scores[i]--
		}
	}
	return scores
}

func TestWrongRulesAreFoundAndTheirInputMadeSmall(t *testing.T) { //nolint:gocyclo // a table of rules
	right := ours{taints.Matcher{ComparisonOperators: true}}
	const several = -1
	c := compareWith(t, true)
	for name, test := range map[string]struct {
		wrong wrong
		check func(comparison, input) error
		// What the smallest input has. Several taints are as many as it takes for a score that is rounded.
		nodes, taints, tolerations int
	}{
		"the effect is ignored": {wrong{tolerates: func(toleration corev1.Toleration, taint corev1.Taint) bool {
			toleration.Effect = ""
			return right.Tolerates(&toleration, &taint)
		}}, comparison.checkPairs, 1, 1, 1},
		"Gt matches an equal value": {wrong{tolerates: func(toleration corev1.Toleration, taint corev1.Taint) bool {
			_, number := int64Of(taint.Value)
			compares := toleration.Operator == corev1.TolerationOpGt && toleration.Key == taint.Key && toleration.Effect == taint.Effect
			return compares && number && toleration.Value == taint.Value || right.Tolerates(&toleration, &taint)
		}}, comparison.checkPairs, 1, 1, 1},
		"Lt reads 01 and +1": {wrong{tolerates: func(toleration corev1.Toleration, taint corev1.Taint) bool {
			if number, err := strconv.ParseInt(taint.Value, 10, 64); err == nil && toleration.Operator == corev1.TolerationOpLt {
				taint.Value = strconv.FormatInt(number, 10)
			}
			return right.Tolerates(&toleration, &taint)
		}}, comparison.checkPairs, 1, 1, 1},
		"Gt and Lt are off": {wrong{}, comparison.checkPairs, 1, 1, 1},
		"the last toleration is taken": {wrong{ours: right, first: func(tolerations []corev1.Toleration, taint *corev1.Taint) (int, bool) {
			for i := range slices.Backward(tolerations) {
				if right.Tolerates(&tolerations[i], taint) {
					return i, true
				}
			}
			return -1, false
		}}, comparison.checkFirst, 1, 1, 2},
		"NoExecute does not keep pods away": {wrong{ours: right, untolerated: func(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
			all = slices.DeleteFunc(slices.Clone(all), func(taint corev1.Taint) bool { return taint.Effect == corev1.TaintEffectNoExecute })
			return right.Untolerated(all, tolerations)
		}}, comparison.checkFilter, 1, 1, 0},
		"the last untolerated taint is named": {wrong{ours: right, untolerated: func(all []corev1.Taint, tolerations []corev1.Toleration) (last corev1.Taint, found bool) {
			for i := range all {
				if taint, ok := right.Untolerated(all[i:], tolerations); ok {
					last, found = taint, true
				}
			}
			return last, found
		}}, comparison.checkFilter, 1, 2, 0},
		"taints that only lower the score keep pods away": {wrong{ours: right, untolerated: func(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
			for i := range all {
				if _, ok := right.First(tolerations, &all[i]); !ok {
					return all[i], true
				}
			}
			return corev1.Taint{}, false
		}}, comparison.checkFilter, 1, 1, 0},
		"nobody tolerates a cordon": {wrong{ours: right, untolerated: func(all []corev1.Taint, _ []corev1.Toleration) (corev1.Taint, bool) {
			return right.Untolerated(all, nil)
		}}, comparison.checkCordon, 1, 0, 1},
		"NoSchedule lowers the score": {wrong{ours: right, count: func(all []corev1.Taint, tolerations []corev1.Toleration) int {
			count := right.CountIntolerable(all, tolerations)
			if taint, found := right.Untolerated(all, tolerations); found && taint.Effect == corev1.TaintEffectNoSchedule {
				count++
			}
			return count
		}}, comparison.checkScore, 1, 1, 0},
		"the score is rounded down to the even": {wrong{ours: right, normalize: roundsDownToTheEven}, comparison.checkScore, 2, several, 0},
		"equal counts get nothing": {wrong{ours: right, normalize: func(counts []int) []int64 {
			if slices.ContainsFunc(counts, func(count int) bool { return count != counts[0] }) {
				return taints.Normalize(counts)
			}
			return make([]int64, len(counts))
		}}, comparison.checkScore, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.ours = test.wrong
			smallest := property(func(in input) error { return test.check(c, in) }).MustFind(t, 5000).Smallest
			all := 0
			for _, node := range smallest.Nodes {
				all += len(node.Taints)
			}
			if len(smallest.Nodes) != test.nodes || test.taints != several && all != test.taints || len(smallest.Tolerations) != test.tolerations {
				t.Errorf("not the smallest input that shows it: %+v", smallest)
			}
		})
	}
	c.ours = wrong{normalize: roundsDownToTheEven}
	c.normalizing().MustFind(t, 1000)
}
