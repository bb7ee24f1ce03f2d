// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheAPIServersClockIsKnownToTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock Clock
		if wait := clock.Until(time.Now().Add(time.Hour)); wait != 0 {
			t.Errorf("of a clock that was never heard one has to wait %v", wait)
		}
		date := time.Now().Truncate(time.Second)
		clock.Heard(date, time.Now())
		for due, want := range map[time.Duration]time.Duration{-time.Hour: 0, 0: 0, 999 * time.Millisecond: 999 * time.Millisecond, time.Second: time.Second, 90 * time.Second: 90 * time.Second} {
			if got := clock.Until(date.Add(due)); got != want {
				t.Errorf("an instant in %v is reached in %v, want %v", due, got, want)
			}
		}
		if offset := clock.Offset(); offset != 0 {
			t.Errorf("two clocks that agree to the second differ by %v", offset)
		}
		clock.Heard(date.Add(-time.Minute), time.Now())
		if offset := clock.Offset(); offset != -59*time.Second {
			t.Errorf("a clock that is behind by 59 to 60 s is behind by %v", offset)
		}
		clock.Heard(date.Add(time.Minute), time.Now().Add(-2*time.Second))
		if offset, at := clock.Offset(), clock.Time(); offset != time.Minute || !at.Equal(date.Add(63*time.Second)) {
			t.Errorf("a clock that told its time 2 s after it was asked is ahead by %v, and says %v at the latest", offset, at)
		}
	})
}

func TestAnAnswerThatWasHeldUpMakesTheAPIServersClockNoLessCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock Clock
		ahead := time.Now().Add(time.Hour) // the API server's clock, on the second
		for range 10 {                     // ten answers in a second narrow it down to a tenth
			clock.Heard(ahead.Truncate(time.Second), time.Now())
			pass(100 * time.Millisecond)
			ahead = ahead.Add(100 * time.Millisecond)
		}
		clock.Heard(ahead.Truncate(time.Second), time.Now().Add(-5*time.Second))
		if from, to, _ := clock.bounds(); from.After(ahead) || to.Before(ahead) || to.Sub(from) > 150*time.Millisecond {
			t.Errorf("after ten prompt answers and one of 5 s the clock is between %v and %v of what it shows", from.Sub(ahead), to.Sub(ahead))
		}
	})
}

func TestTheAPIServersClockIsLessCertainTheLongerItWasNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock Clock
		date := time.Now()
		clock.Heard(date, time.Now())
		pass(1000 * time.Second)
		if from, to, _ := clock.bounds(); !from.Equal(date.Add(999*time.Second)) || !to.Equal(date.Add(1002*time.Second)) {
			t.Errorf("1,000 s after an answer its clock is between %v and %v", from.Sub(date), to.Sub(date))
		}
	})
}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
}
