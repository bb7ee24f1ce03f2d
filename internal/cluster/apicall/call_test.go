// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

func TestACallInFlightOutlivesItsContextButNotItsDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		deadline time.Duration // 0 for none
		want     time.Duration
	}{
		"no deadline":      {0, Timeout},
		"an earlier one":   {10 * time.Second, 10 * time.Second},
		"one that is late": {time.Hour, Timeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if test.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, test.deadline)
			}
			call, done := InFlight(ctx)
			defer done()
			cancel() // the process stops
			began := time.Now()
			<-call.Done()
			if took := time.Since(began); took != test.want {
				t.Errorf("%s: the call ends after %s, want %s", name, took, test.want)
			}
		})
	}
}

// What was decided before the wait for the token is not what is written.
func TestDecideDecidesAgainOnceItHasAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(rate.Every(10*time.Second), 1)
		limiter.Allow()
		began := time.Now()
		for name, want := range map[string]bool{"over meanwhile": false, "still there": true} {
			asked := 0
			_, writes, err := Decide(t.Context(), limiter, func() (string, bool) {
				asked++
				return name, asked == 1 || want
			})
			if writes != want || err != nil || asked != 2 {
				t.Errorf("%s: it writes: %t, %v, after %d decisions", name, writes, err, asked)
			}
		}
		if _, writes, _ := Decide(t.Context(), limiter, func() (string, bool) { return "", false }); writes {
			t.Error("it writes nothing")
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it took %s, want two tokens", took)
		}
	})
}
