// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// The rules below are wrong in one respect each.

type namesTheLast struct{ ours }

func (w namesTheLast) Untolerated(all []corev1.Taint, tolerations []corev1.Toleration) (last corev1.Taint, found bool) {
	for i := range all {
		if taint, ok := w.ours.Untolerated(all[i:], tolerations); ok {
			last, found = taint, true
		}
	}
	return last, found
}

type refusesEveryEffect struct{ ours }

func (w refusesEveryEffect) Untolerated(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
	for i := range all {
		if _, ok := w.First(tolerations, &all[i]); !ok {
			return all[i], true
		}
	}
	return corev1.Taint{}, false
}

type toleratesNoCordon struct{ ours }

func (w toleratesNoCordon) Untolerated(all []corev1.Taint, _ []corev1.Toleration) (corev1.Taint, bool) {
	return w.ours.Untolerated(all, nil)
}

type countsNoSchedule struct{ ours }

func (w countsNoSchedule) CountIntolerable(all []corev1.Taint, tolerations []corev1.Toleration) int {
	count := w.ours.CountIntolerable(all, tolerations)
	if taint, found := w.Untolerated(all, tolerations); found && taint.Effect == corev1.TaintEffectNoSchedule {
		count++
	}
	return count
}

type roundsTheScore struct{ ours }

func (roundsTheScore) Normalize(counts []int) []int64 {
	scores := taints.Normalize(counts)
	for i, score := range scores {
		if score > 0 && score < taints.MaxNodeScore && score%2 == 1 {
			scores[i]--
		}
	}
	return scores
}

type givesZeroToEqualCounts struct{ ours }

func (givesZeroToEqualCounts) Normalize(counts []int) []int64 {
	for _, count := range counts {
		if count != counts[0] {
			return taints.Normalize(counts)
		}
	}
	return make([]int64, len(counts))
}

func TestAWrongRuleIsFoundAndItsInputMadeSmall(t *testing.T) {
	tests := []struct {
		name  string
		wrong rules
		check func(comparison) func(input) error
		// What the smallest input has.
		nodes, taints, tolerations int
	}{
		{"the last untolerated taint is named", namesTheLast{}, filter, 1, 2, 0},
		{"taints that only lower the score keep pods away", refusesEveryEffect{}, filter, 1, 1, 0},
		{"nobody tolerates a cordon", toleratesNoCordon{}, cordon, 1, 0, 1},
		{"NoSchedule lowers the score", countsNoSchedule{}, score, 1, 1, 0},
		{"the score is rounded down to the even", roundsTheScore{}, score, 2, 4, 0},
		{"equal counts get nothing", givesZeroToEqualCounts{}, score, 1, 0, 0},
	}
	c := compareWith(t, byDefault)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c.ours = test.wrong
			found := property(test.check(c)).Search(1, 2000)
			if found == nil {
				t.Fatal("not found")
			}
			checkSize(t, found, test.nodes, test.taints, test.tolerations)
			t.Logf("input %d shows it: %v", found.Index, found.Err)
		})
	}
}

func filter(c comparison) func(input) error { return c.checkFilter }
func cordon(c comparison) func(input) error { return c.checkCordon }
func score(c comparison) func(input) error  { return c.checkScore }

func checkSize(t *testing.T, found *seed.Counterexample[input], nodes, taints, tolerations int) {
	t.Helper()
	all := 0
	for _, node := range found.Smallest.Nodes {
		all += len(node.Taints)
	}
	if len(found.Smallest.Nodes) != nodes || all != taints || len(found.Smallest.Tolerations) != tolerations {
		t.Errorf("not the smallest input that shows it: %+v", found.Smallest)
	}
}

func TestAWrongRoundingOfCountsIsFound(t *testing.T) {
	c := compareWith(t, byDefault)
	c.ours = roundsTheScore{}
	if found := c.normalizing().Search(1, 1000); found == nil {
		t.Error("not found")
	}
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
