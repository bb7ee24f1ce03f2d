// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble has the parts of a world in virtual time, in a bubble of testing/synctest: an API server over
// client-go's fake clientset, with watches that tests can disturb, a record of calls, and functions that run things. It
// knows nothing about the product, so the tests of the caches, from which package world is built, can use it.
package bubble

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Run runs a controller, and returns when everything that can happen has happened. The controller is stopped when the
// test ends or stop is called. If it ends with an error, the test fails and names it.
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

// Main runs the tests of a package.
func Main(m *testing.M) { os.Exit(Tests{m}.Run()) }

// Tests are the tests of a package. Of client-go's error handlers, it keeps only the one that logs: the other sleeps
// until a little after the previous error of the process, and real or another bubble's time can be years ahead of a
// bubble's, so that what met an error would be paused.
type Tests struct{ *testing.M }

// Run runs the tests.
func (t Tests) Run() int {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	return t.M.Run()
}
