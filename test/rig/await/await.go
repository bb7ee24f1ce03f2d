// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package await waits in tests in real time: for a state that cannot be subscribed to, for an instant, or for a
// message.
package await

import (
	"cmp"
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Limit is how long a test waits for a state before it gives up.
	Limit = 2 * time.Minute
	// lookAgain is how often it looks.
	lookAgain = 25 * time.Millisecond
)

// Eventually waits until a check finds nothing wrong. If that does not happen, the failure names what it waited for.
func Eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	if err := Poll(t.Context(), check); err != nil {
		t.Fatalf("waited without success until %s: %v", what, err)
	}
}

// Poll calls the check until it returns no error. If [Limit] passes or the context ends first, Poll returns the last
// error of a check that was not cut short.
func Poll(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, lookAgain, Limit, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err == nil {
		return nil
	}
	return cmp.Or(last, err)
}

// Until waits in real time until an instant, to see that nothing happens before it.
func Until(t testing.TB, at time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// Pause waits as part of a scenario or of a measurement. It returns early, with the cause, if the context ends.
func Pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Receive waits for a message.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case told := <-from:
		return told
	case <-timer.C:
		t.Fatal("waited without success for a call that was expected")
		panic("unreachable")
	}
}

// Must ends a test that cannot continue after an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
