// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

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

func fewerCounts(list []int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for i := range list {
			if !yield(without(list, i)) {
				return
			}
		}
		for i, count := range list {
			smaller := slices.Clone(list)
			smaller[i] = count / 2
			if count > 0 && !yield(smaller) {
				return
			}
		}
	}
}

func (c comparison) checkNormalize(counts []int) error {
	raw := make([]int64, len(counts))
	for i, count := range counts {
		raw[i] = int64(count)
	}
	theirs, err := c.scheduler.normalize(raw)
	if err != nil {
		return err
	}
	if ours := c.ours.Normalize(counts); !slices.Equal(theirs, ours) {
		return fmt.Errorf("normalized (-upstream +ours):\n%s", cmp.Diff(theirs, ours))
	}
	return nil
}

func (c comparison) normalizing() seed.Property[[]int] {
	return seed.Property[[]int]{Usual: 50000, Generate: counts, Smaller: fewerCounts, Check: c.checkNormalize}
}

func TestCountsOfAnySizeAreNormalizedAsByTaintToleration(t *testing.T) {
	compareWith(t, byDefault).normalizing().Hold(t)
}
