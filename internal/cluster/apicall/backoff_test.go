// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"errors"
	"math"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	limiter := Wait[string](func(of string) time.Duration { return time.Duration(len(of)) * time.Minute })
	if got := limiter.When("node"); got != 4*time.Minute {
		t.Errorf("it comes back in %v, want 4m", got)
	}
}

func TestTheBackoffOfACallDependsOnWhyItFailed(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err      error
		failures int
		most     time.Duration // and more than four fifths of it
	}{
		"the first time":      {errors.New("connection refused"), 1, FirstBackoff},
		"the third time":      {errors.New("connection refused"), 3, 4 * FirstBackoff},
		"again and again":     {errors.New("connection refused"), 100, LastBackoff},
		"refused":             {apierrors.NewForbidden(pods, "a", nil), 100, LastRefused},
		"a 404 of a webhook":  {apierrors.NewNotFound(pods, "a"), 100, LastRefused},
		"a server that fails": {apierrors.NewInternalError(errors.New("etcd")), 100, LastBackoff},
		"busy, no time named": {apierrors.NewTooManyRequests("busy", 0), 2, 2 * FirstBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Backoff(test.failures, test.err); got <= test.most*4/5 || got > test.most {
				t.Errorf("%v, want more than four fifths of %v", got, test.most)
			}
		})
	}
}

func TestTheTimeThatTheAPIServerNamesIsTheBackoff(t *testing.T) {
	for seconds, want := range map[int]time.Duration{7: 7 * time.Second, 3600: 5 * time.Minute} {
		if got := Backoff(1, busy(seconds)); got != want {
			t.Errorf("%v after an answer that names %d s, want %v", got, seconds, want)
		}
	}
}

// busy is the answer of an API server that is too busy for some seconds.
func busy(seconds int) error { return apierrors.NewTooManyRequests("busy", seconds) }

func TestWhatFailedTogetherIsTriedAgainApartAndNeverLaterThanTheBackoff(t *testing.T) {
	const backoff = 10 * time.Second
	waits := map[time.Duration]bool{}
	for range 1000 {
		wait := jittered(backoff)
		if wait <= backoff*4/5 || wait > backoff {
			t.Fatalf("%v, want more than four fifths of %v", wait, backoff)
		}
		waits[wait] = true
	}
	if len(waits) < 900 {
		t.Errorf("only %d of 1000 waits differ", len(waits))
	}
	if wait := jittered(1); wait != 1 {
		t.Errorf("a backoff of 1 ns became %v", wait)
	}
}

func TestWhatFailsIsTriedAgainByItself(t *testing.T) {
	noon := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	var backoffs Backoffs[string]
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
	backoffs.Fail("a", busy(1), noon)
	backoffs.Fail("b", busy(60), noon)
	want(noon, "a", time.Second, noon.Add(time.Second))
	want(noon, "b", time.Minute, noon.Add(time.Second))
	later := noon.Add(time.Second)
	want(later, "a", 0, noon.Add(time.Minute))
	backoffs.Fail("a", busy(2), later)
	want(later, "a", 2*time.Second, later.Add(2*time.Second))
	backoffs.Forget("a")
	want(later, "a", 0, noon.Add(time.Minute))
	backoffs.Fail("a", busy(1), later)
	want(later, "a", time.Second, later.Add(time.Second))
	backoffs.Fail("c", busy(60), later.Add(time.Hour))
	if len(backoffs.failed) != 1 {
		t.Errorf("%d failures are remembered, want that of c alone: the others are long over", len(backoffs.failed))
	}
}
