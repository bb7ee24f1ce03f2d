// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for name, test := range map[string]struct {
		values []int
		share  float64
		want   int
	}{
		"nothing was measured":                   {nil, 0.5, 0},
		"one value is every quantile":            {[]int{7}, 0.99, 7},
		"the smallest is the quantile of none":   {[]int{3, 1, 2}, 0, 1},
		"the greatest is the quantile of all":    {[]int{3, 1, 2}, 1, 3},
		"the median of three is the middle one":  {[]int{3, 1, 2}, 0.5, 2},
		"of an even number it is the lower one":  {[]int{4, 1, 3, 2}, 0.5, 2},
		"99 of 100 do not exceed the p99":        {hundred, 0.99, 99},
		"the p99.9 of a hundred is the greatest": {hundred, 0.999, 100},
	} {
		t.Run(name, func(t *testing.T) {
			if got := quantile(test.values, test.share); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
