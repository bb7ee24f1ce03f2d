// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
)

// quantile returns the smallest value that the given share of the values does not exceed. The values need no order.
func quantile[T cmp.Ordered](values []T, share float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }
