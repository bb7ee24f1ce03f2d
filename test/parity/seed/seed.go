// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seed gives the generated tests of this module their inputs: how many, from which seed, and how a failing one
// is found, made small and played again. It defines the flags
//
//	go test ./matching -args -n=100000 -seed=7   // that many inputs from that seed
//	go test ./matching -args -seed=7 -only=1234  // the one at that index again
//
// The input at an index depends on the seed and the index alone, never on -n or on the other inputs.
package seed

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

var (
	number = flag.Int("n", 0, "how many inputs are generated for each property; 0 for the package's own choice")
	start  = flag.Uint64("seed", 1, "seed from which the inputs are generated")
	only   = flag.Int("only", -1, "the index of the one input that is wanted; -1 for all")
)

// Count is how many inputs are asked for: -n, else the usual number of the test.
func Count(usual int) int {
	if *number == 0 {
		return usual
	}
	return *number
}

// Seed is the seed that all inputs of this run come from.
func Seed() uint64 {
	return *start
}

// Only gives the index of the one input that is wanted. Without one, ok is false.
func Only() (index int, ok bool) {
	return *only, *only >= 0
}

// Rand is the source of the input at the index. It must not be shared by goroutines.
func Rand(index int) *rand.Rand {
	return source(*start, index)
}

func source(seed uint64, index int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(index)))
}

// Pick gives one of the choices, each with the same chance. There must be at least one.
func Pick[T any](r *rand.Rand, choices []T) T {
	return choices[r.IntN(len(choices))]
}

// List gives from zero to the given number of things, every length with the same chance. Without any it is nil.
func List[T any](r *rand.Rand, most int, one func(*rand.Rand) T) []T {
	var list []T
	for range r.IntN(most + 1) {
		list = append(list, one(r))
	}
	return list
}

// Each tries the inputs at the first count indexes, in as many parallel subtests as there are processors. A subtest
// ends with its first failure.
func Each(t *testing.T, count int, try func(t *testing.T, index int)) {
	t.Helper()
	var taken atomic.Int64
	next := func() int { return int(taken.Add(1)) - 1 }
	t.Run("played", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for index := next(); index < count && !t.Failed(); index = next() {
					try(t, index)
				}
			})
		}
	})
}
