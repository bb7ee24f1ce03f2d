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
