// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apicall says how Taintkeeper calls the API server. A call waits for a token before it is decided
// about, is finished once it has begun, and is never repeated behind the caller's back. What went wrong has one
// of a few names.
package apicall

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Timeout bounds one call. It is longer than the API server lets a webhook take (30 s), so that a call
// that can still succeed is not given up.
const Timeout = 35 * time.Second

// Token waits for a token of a limiter; nil has one for every call. It is asked before a decision and not
// within the call: a decision must not grow old in a queue. It fails when the context ends or is aborted.
func Token(ctx context.Context, limiter *rate.Limiter) error {
	if limiter == nil {
		return cmp.Or(ctx.Err(), AbortCause(ctx))
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if aborted, ok := ctx.Value(abortKey{}).(context.Context); ok {
		defer context.AfterFunc(aborted, cancel)() //nolint:contextcheck // it is the given context's own
	}
	return cmp.Or(limiter.Wait(waiting), AbortCause(ctx))
}

// InFlight returns the context of a call that has begun. It goes on when the given one ends: shutting
// down stops the next call, not the one in flight. It ends when the given one is aborted, see Abortable.
func InFlight(ctx context.Context) (context.Context, context.CancelFunc) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	aborted, ok := ctx.Value(abortKey{}).(context.Context)
	if !ok {
		return call, cancel
	}
	stop := context.AfterFunc(aborted, cancel)
	return call, func() { stop(); cancel() }
}

type abortKey struct{}

// Abortable returns a context whose calls in flight can be aborted, for a reason.
func Abortable(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	aborted, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	return context.WithValue(ctx, abortKey{}, aborted), abort
}

// Aborted returns a channel that is closed when the context is aborted; nil if it cannot be.
func Aborted(ctx context.Context) <-chan struct{} {
	if aborted, ok := ctx.Value(abortKey{}).(context.Context); ok {
		return aborted.Done()
	}
	return nil
}

// AbortCause returns why the context was aborted; nil if it was not.
func AbortCause(ctx context.Context) error {
	if aborted, ok := ctx.Value(abortKey{}).(context.Context); ok {
		return context.Cause(aborted) //nolint:contextcheck // it is the given context's own
	}
	return nil
}

// Stopping reports whether the process is told to end: no call may begin any more.
func Stopping(ctx context.Context) bool { return ctx.Err() != nil }
