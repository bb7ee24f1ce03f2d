// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sums is the wrong property that no list of digits adds up to 10 or more.
var sums = Property[[]int]{
	Generate: digits,
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
	return List(r, 9, func(r *rand.Rand) int { return r.IntN(10) })
}

func TestAnInputDependsOnItsIndexAlone(t *testing.T) {
	for index := range 100 {
		if a, b := digits(Rand(index)), digits(Rand(index)); !slices.Equal(a, b) {
			t.Errorf("index %d gives %v and %v", index, a, b)
		}
	}
	if a, b := Rand(0).Uint64(), Rand(1).Uint64(); a == b {
		t.Errorf("indexes 0 and 1 begin with the same number %d", a)
	}
}

func TestACounterexampleIsMadeAsSmallAsItGets(t *testing.T) {
	panics := sums
	panics.Check = func(list []int) error {
		if err := sums.Check(list); err != nil {
			panic(err)
		}
		return nil
	}
	for want, p := range map[string]Property[[]int]{"the sum is 10": sums, "panic: the sum is 10\n": panics} {
		smallest, err := p.MustFind(t, 1000)
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v", smallest, err)
		}
		for _, simpler := range Smaller(smallest, Anything) {
			if sums.Check(simpler) != nil {
				t.Errorf("%v is not the smallest: %v does it too", smallest, simpler)
			}
		}
	}
}

func TestWhatIsOneThingSimpler(t *testing.T) {
	type pair struct {
		Words []string
		Set   bool
		Seen  *int
	}
	got := fmt.Sprint(Smaller(pair{Words: []string{"ab", "c"}, Set: true}, Anything))
	const want = "[{[c] true <nil>} {[ab] true <nil>} {[ c] true <nil>} {[b c] true <nil>} {[a c] true <nil>} {[ab ] true <nil>} {[ab ] true <nil>} {[ab c] false <nil>}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEachInputIsTriedOnce(t *testing.T) {
	const count = 100
	var tried [count]atomic.Int32
	Each(t, count, func(_ *testing.T, index int) { tried[index].Add(1) })
	for index := range tried {
		if times := tried[index].Load(); times != 1 {
			t.Errorf("the input at index %d was tried %d times", index, times)
		}
	}
}

func TestAnInputIsWrittenAsInGo(t *testing.T) {
	type part struct {
		Name  string
		After time.Duration
		Taint *corev1.Taint
		None  int
	}
	got := Describe([]any{part{Name: "a", After: 1500 * time.Millisecond, Taint: &corev1.Taint{Key: "k", TimeAdded: &metav1.Time{}}}, 7})
	const want = `[part{Name: "a", After: 1.5s, Taint: Taint{Key: "k", TimeAdded: 0001-01-01 00:00:00 +0000 UTC}}, 7]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
