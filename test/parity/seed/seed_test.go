// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// sums is the wrong property that no list of digits adds up to 10 or more.
var sums = seed.Property[[]int]{
	Generate: digits,
	Smaller:  fewerOrSmallerDigits,
	Check: func(list []int) error {
		sum := 0
		for _, digit := range list {
			sum += digit
		}
		if sum >= 10 {
			return fmt.Errorf("the sum is %d", sum)
		}
		return nil
	},
}

func digits(r *rand.Rand) []int {
	return seed.List(r, 9, func(r *rand.Rand) int { return r.IntN(10) })
}

func fewerOrSmallerDigits(list []int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for i := range list {
			if !yield(slices.Delete(slices.Clone(list), i, i+1)) {
				return
			}
		}
		for i, digit := range list {
			smaller := slices.Clone(list)
			smaller[i]--
			if digit > 0 && !yield(smaller) {
				return
			}
		}
	}
}

func TestAnInputDependsOnItsIndexAlone(t *testing.T) {
	for index := range 100 {
		if a, b := digits(seed.Rand(index)), digits(seed.Rand(index)); !slices.Equal(a, b) {
			t.Errorf("index %d gives %v and %v", index, a, b)
		}
	}
	if a, b := seed.Rand(0).Uint64(), seed.Rand(1).Uint64(); a == b {
		t.Errorf("indexes 0 and 1 begin with the same number %d", a)
	}
}

func TestACounterexampleIsMadeAsSmallAsItGets(t *testing.T) {
	found := sums.Search(1, 1000)
	if found == nil {
		t.Fatal("there is none")
	}
	if got := found.Err.Error(); got != "the sum is 10" {
		t.Errorf("%v: %s", found.Smallest, got)
	}
	for smaller := range fewerOrSmallerDigits(found.Smallest) {
		if err := sums.Check(smaller); err != nil {
			t.Errorf("%v is not the smallest: %v does it too: %v", found.Smallest, smaller, err)
		}
	}
}

func TestAPanicIsACounterexampleLikeAnyOther(t *testing.T) {
	panics := sums
	panics.Check = func(list []int) error {
		if err := sums.Check(list); err != nil {
			panic(err)
		}
		return nil
	}
	found := panics.Search(1, 1000)
	if found == nil {
		t.Fatal("there is none")
	}
	if got := found.Err.Error(); !strings.HasPrefix(got, "panic: the sum is 10\n") {
		t.Errorf("%v: %s", found.Smallest, got)
	}
}

func TestWhatHoldsHasNoCounterexample(t *testing.T) {
	holds := sums
	holds.Check = func([]int) error { return nil }
	if found := holds.Search(1, 1000); found != nil {
		t.Errorf("%v: %v", found.Smallest, found.Err)
	}
}

func TestEachInputIsTriedOnce(t *testing.T) {
	const count = 100
	var tried [count]atomic.Int32
	seed.Each(t, count, func(_ *testing.T, index int) { tried[index].Add(1) })
	for index := range tried {
		if times := tried[index].Load(); times != 1 {
			t.Errorf("the input at index %d was tried %d times", index, times)
		}
	}
}

func TestAnInputIsPlayedAgainByTheTestAboveItsSubtests(t *testing.T) {
	const want = "go test ./folder -run '^TestAnInputIsPlayedAgainByTheTestAboveItsSubtests$' -v -args -seed="
	t.Run("subtest", func(t *testing.T) {
		if got := seed.Again(t, "folder", 7); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " -only=7") {
			t.Errorf("%s, want %s… -only=7", got, want)
		}
	})
}
