// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"slices"

	"github.com/go-logr/logr"
)

// QuietErrors returns a logger that writes errors at level 1. It is for controllers whose reconcilers log persistent
// failures themselves, because controller-runtime logs each error that a reconciler returns, which in an outage is one
// for every node and try.
func QuietErrors(logger logr.Logger) logr.Logger {
	if logger.GetSink() == nil { // it discards
		return logger
	}
	return logger.WithSink(quiet{logger.GetSink()})
}

type quiet struct{ logr.LogSink }

// Error implements logr.LogSink.
func (q quiet) Error(err error, message string, keysAndValues ...any) {
	const level = 1
	if q.Enabled(level) {
		q.Info(level, message, append(slices.Clip(keysAndValues), "error", err)...)
	}
}

// WithValues implements logr.LogSink.
func (q quiet) WithValues(keysAndValues ...any) logr.LogSink {
	return quiet{q.LogSink.WithValues(keysAndValues...)}
}

// WithName implements logr.LogSink.
func (q quiet) WithName(name string) logr.LogSink { return quiet{q.LogSink.WithName(name)} }
