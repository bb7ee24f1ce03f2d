// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sample says how much of their random histories and sweeps tests play: everything, or with -short a fixed
// part, which is the same in each run. `make test` uses -short, `make proofs` does not.
package sample

import "testing"

// Seeds returns the seeds of random histories: all, from zero on, or with -short the first few; and in both cases the
// others, each of which has shown a fault once.
func Seeds(t testing.TB, all, few int, others ...uint64) []uint64 {
	t.Helper()
	count := all
	if testing.Short() {
		count = few
	}
	seeds := make([]uint64, count)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	seeds = append(seeds, others...)
	if testing.Short() {
		t.Logf("-short: %d of %d seeds: %v", len(seeds), all, seeds)
	}
	return seeds
}

// Stride returns how far apart the steps are that a sweep plays: one, or with -short so far that it plays one in so
// many.
func Stride(t testing.TB, oneIn int) int {
	t.Helper()
	if testing.Short() {
		t.Logf("-short: the sweep plays one in %d steps", oneIn)
		return oneIn
	}
	return 1
}
