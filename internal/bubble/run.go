// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble is for tests that play a whole controller in virtual time, in a bubble of
// testing/synctest, with client-go's fake clientset in the place of an API server: it runs the
// controller and keeps the book of its calls.
package bubble

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
)

// Run runs a controller, and returns when what can happen has happened. The controller is stopped when
// the test ends or stop is called. That it ends with an error fails the test, which then says who did.
func Run(t *testing.T, who string, controller func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with: %v", who, err)
		}
	})
	t.Cleanup(stop)
	synctest.Wait()
	return stop
}
