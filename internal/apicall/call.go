// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apicall says how Taintkeeper calls the API server: a call waits for its turn before it is
// decided about, is finished once it has begun, and is never repeated unseen; what went wrong has one of
// a few names.
package apicall

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Timeout bounds one call. It is longer than the API server lets a webhook take (30 s), so that a call
// that can still succeed is not given up.
const Timeout = 35 * time.Second

// Turn waits until a limiter allows one more call; nil allows all. It is asked before a decision and not
// within the call: a decision must not grow old in a queue. It fails when the context ends.
func Turn(ctx context.Context, limiter *rate.Limiter) error {
	if limiter == nil {
		return ctx.Err()
	}
	return limiter.Wait(ctx)
}

// InFlight returns the context of a call that has begun. It goes on when the given one ends: shutting
// down stops the next call, not the one in flight.
func InFlight(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), Timeout)
}

// Stopping reports whether the process is told to end: no call may begin any more.
func Stopping(ctx context.Context) bool { return ctx.Err() != nil }
