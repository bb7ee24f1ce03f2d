// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apicall defines how Taintkeeper calls the API server. A caller waits for a token before it decides, a call
// that has begun is finished, and only the caller repeats a call. Errors are reduced to a few reasons.
package apicall

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/time/rate"
)

// Timeout bounds one call. It is longer than a webhook may take (30 s), so that a call that can still succeed is not
// abandoned.
const Timeout = 35 * time.Second

// Token waits for a token of a limiter; a nil limiter never waits. Call it before a decision and not within the call,
// because a decision must not grow old in a queue. It fails when the context ends or is aborted.
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

// GetNode waits for a token of the limiter and does a consistent read of a node.
func GetNode(ctx context.Context, client kubernetes.Interface, limiter *rate.Limiter, name string) (*corev1.Node, error) {
	if err := Token(ctx, limiter); err != nil {
		return nil, err
	}
	ctx, cancel := InFlight(ctx)
	defer cancel()
	return client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// InFlight returns the context of a call that has begun. It continues when the given context is cancelled: shutting
// down prevents the next call, but does not stop the one in flight. It ends after [Timeout], at the given context's
// deadline, and when the given context is aborted, see [Abortable].
func InFlight(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(Timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	call, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
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

// Stopping reports whether the process has been told to end, so that no more calls may begin.
func Stopping(ctx context.Context) bool { return ctx.Err() != nil }
