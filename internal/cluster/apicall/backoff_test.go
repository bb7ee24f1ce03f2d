// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheBackoffDoublesUpToTheLast(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: LastBackoff, math.MaxInt: LastBackoff,
	} {
		if got := Doubled(FirstBackoff, failures, LastBackoff); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
	if got := Doubled(time.Minute, 1, time.Second); got != time.Second {
		t.Errorf("%v, want no more than the last", got)
	}
}

func TestTheQueueOfAControllerBacksOffInTheSameSteps(t *testing.T) {
	limiter := RateLimiter[string]()
	for failures := 1; failures <= 12; failures++ {
		if got, want := limiter.When("n"), Doubled(FirstBackoff, failures, LastBackoff); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
}

func TestAQueueComesBackWhenTheReconcilerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := map[string]time.Time{"over": time.Now().Add(-time.Hour), "n": time.Now().Add(time.Minute)}
		limiter := Wait[string](func(of string) time.Duration { return time.Until(again[of]) })
		for of, want := range map[string]time.Duration{"n": time.Minute, "over": 0, "never failed": 0} {
			if got := limiter.When(of); got != want {
				t.Errorf("%s comes back in %v, want %v", of, got, want)
			}
		}
	})
}

func TestWhatFailedTogetherIsTriedAgainApartAndNeverLaterThanTheBackoff(t *testing.T) {
	const backoff = 10 * time.Second
	waits := map[time.Duration]bool{}
	for range 1000 {
		wait := Jittered(backoff)
		if wait <= backoff*4/5 || wait > backoff {
			t.Fatalf("%v, want more than four fifths of %v", wait, backoff)
		}
		waits[wait] = true
	}
	if len(waits) < 900 {
		t.Errorf("only %d of 1000 waits differ", len(waits))
	}
	if wait := Jittered(1); wait != 1 {
		t.Errorf("a backoff of 1 ns became %v", wait)
	}
}

func TestWhatFailsIsTriedAgainByItself(t *testing.T) {
	noon := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	refusal := errors.New("refused")
	backoffs := NewBackoffs[string](func(failures int, err error) time.Duration {
		if errors.Is(err, refusal) {
			return time.Minute
		}
		return time.Duration(failures) * time.Second
	})
	want := func(now time.Time, what string, want time.Duration, next time.Time) {
		t.Helper()
		if got := backoffs.Wait(what, now); got != want {
			t.Errorf("%s waits for %v, want %v", what, got, want)
		}
		if got := backoffs.Next(now); !got.Equal(next) {
			t.Errorf("the next is tried at %v, want %v", got, next)
		}
	}
	want(noon, "a", 0, time.Time{})
	backoffs.Fail("a", errors.New("timeout"), noon)
	backoffs.Fail("b", refusal, noon)
	want(noon, "a", time.Second, noon.Add(time.Second))
	want(noon, "b", time.Minute, noon.Add(time.Second))
	later := noon.Add(time.Second)
	want(later, "a", 0, noon.Add(time.Minute))
	backoffs.Fail("a", errors.New("timeout"), later)
	want(later, "a", 2*time.Second, later.Add(2*time.Second))
	backoffs.Forget("a")
	want(later, "a", 0, noon.Add(time.Minute))
	backoffs.Fail("a", errors.New("timeout"), later)
	want(later, "a", time.Second, later.Add(time.Second))
	backoffs.Fail("c", refusal, later.Add(time.Hour))
	if len(backoffs.failed) != 1 {
		t.Errorf("%d failures are remembered, want that of c alone: the others are long over", len(backoffs.failed))
	}
}
