// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestThoseWhoMeetDoSomethingOnceWhenNobodyIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, start := newMeeting(3), time.Now()
		done, failed := 0, errors.New("it failed")
		do := func(context.Context) error {
			done++
			return failed
		}
		results := make(chan error)
		for i := range 2 {
			go func() {
				pass(t, time.Duration(i)*time.Second)
				m.leave()
				results <- m.together(t.Context(), do)
			}()
		}
		time.AfterFunc(5*time.Second, m.leave) // one that ends without
		for range 2 {
			if err := <-results; !errors.Is(err, failed) || time.Since(start) != 5*time.Second {
				t.Errorf("%v after %s", err, time.Since(start))
			}
		}
		if done != 1 {
			t.Errorf("it was done %d times", done)
		}
	})
}

func TestNobodyWaitsAtAMeetingLongerThanItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newMeeting(1).together(ctx, func(context.Context) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
