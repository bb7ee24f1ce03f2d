// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// wrong is rules that are wrong in one respect, which is not nil.
type wrong struct {
	ours

	untolerated func(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool)
	count       func(all []corev1.Taint, tolerations []corev1.Toleration) int
	normalize   func(counts []int) []int64
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

func TestAWrongRuleIsFoundAndItsInputMadeSmall(t *testing.T) {
	var right ours
	c := compareWith(t, false)
	for name, test := range map[string]struct {
		wrong wrong
		check func(comparison, input) error
		// What the smallest input has.
		nodes, taints, tolerations int
	}{
		"the last untolerated taint is named": {wrong{untolerated: func(all []corev1.Taint, tolerations []corev1.Toleration) (last corev1.Taint, found bool) {
			for i := range all {
				if taint, ok := right.Untolerated(all[i:], tolerations); ok {
					last, found = taint, true
				}
			}
			return last, found
		}}, comparison.checkFilter, 1, 2, 0},
		"taints that only lower the score keep pods away": {wrong{untolerated: func(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
			for i := range all {
				if _, ok := right.First(tolerations, &all[i]); !ok {
					return all[i], true
				}
			}
			return corev1.Taint{}, false
		}}, comparison.checkFilter, 1, 1, 0},
		"nobody tolerates a cordon": {wrong{untolerated: func(all []corev1.Taint, _ []corev1.Toleration) (corev1.Taint, bool) {
			return right.Untolerated(all, nil)
		}}, comparison.checkCordon, 1, 0, 1},
		"NoSchedule lowers the score": {wrong{count: func(all []corev1.Taint, tolerations []corev1.Toleration) int {
			count := right.CountIntolerable(all, tolerations)
			if taint, found := right.Untolerated(all, tolerations); found && taint.Effect == corev1.TaintEffectNoSchedule {
				count++
			}
			return count
		}}, comparison.checkScore, 1, 1, 0},
		"the score is rounded down to the even": {wrong{normalize: roundsDownToTheEven}, comparison.checkScore, 2, 4, 0},
		"equal counts get nothing": {wrong{normalize: func(counts []int) []int64 {
			if slices.ContainsFunc(counts, func(count int) bool { return count != counts[0] }) {
				return taints.Normalize(counts)
			}
			return make([]int64, len(counts))
		}}, comparison.checkScore, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.ours = test.wrong
			smallest := property(func(in input) error { return test.check(c, in) }).MustFind(t, 2000).Smallest
			all := 0
			for _, node := range smallest.Nodes {
				all += len(node.Taints)
			}
			if len(smallest.Nodes) != test.nodes || all != test.taints || len(smallest.Tolerations) != test.tolerations {
				t.Errorf("not the smallest input that shows it: %+v", smallest)
			}
		})
	}
	c.ours = wrong{normalize: roundsDownToTheEven}
	c.normalizing().MustFind(t, 1000)
}

func TestTheGeneratedInputsReachEveryOutcome(t *testing.T) {
	matcher := taints.Matcher{ComparisonOperators: true}
	reached := map[string]int{}
	for i := range 2000 {
		in := generate(rand.New(rand.NewPCG(1, uint64(i))))
		var counts []int
		for _, node := range in.Nodes {
			taint, found := matcher.Untolerated(node.Taints, in.Tolerations)
			if found {
				reached["refused for "+string(taint.Effect)]++
				continue
			}
			if _, cordoned := matcher.Untolerated(taintsOfCordon(node), in.Tolerations); node.Unschedulable && !cordoned {
				reached["cordon tolerated"]++
			}
			counts = append(counts, matcher.CountIntolerable(node.Taints, in.Tolerations))
		}
		for _, score := range taints.Normalize(counts) {
			reached[kindOf(score)]++
		}
	}
	for _, outcome := range []string{"refused for NoSchedule", "refused for NoExecute", "cordon tolerated", "worst", "between", "best"} {
		if reached[outcome] < 100 {
			t.Errorf("%q comes %d times only", outcome, reached[outcome])
		}
	}
}

func kindOf(score int64) string {
	switch score {
	case 0:
		return "worst"
	case taints.MaxNodeScore:
		return "best"
	default:
		return "between"
	}
}
