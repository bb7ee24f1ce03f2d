// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// maxLogLevel is the level at which client-go logs its requests with their headers, without credentials. Higher levels
// would add bodies, and some of these contain tokens of clients that read metrics.
const maxLogLevel = 7

// newLogger makes a logger that writes every line of its level, each in a single write before the logging call returns.
// controller-runtime's logger drops most lines that have the same message within a second, but each eviction of a storm
// must be in the log. It does not buffer, so a process that is killed leaves the lines of everything it did.
func newLogger(o *options, out io.Writer) logr.Logger {
	encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	if o.logFormat == "json" {
		encoder = zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	}
	sink := zapcore.Lock(zapcore.AddSync(out))
	core := zapcore.NewCore(&ctrlzap.KubeAwareEncoder{Encoder: encoder}, sink, zapcore.Level(-o.logLevel))
	return zapr.NewLogger(zap.New(core, zap.ErrorOutput(sink)))
}

// shareLogger makes controller-runtime and client-go write to a logger, at its level.
func shareLogger(log logr.Logger, level int) error {
	ctrl.SetLogger(log)
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true))
	var verbosity klog.Level // Set changes klog's own level, which is global
	if err := verbosity.Set(strconv.Itoa(level)); err != nil {
		return fmt.Errorf("set the level of client-go's log: %w", err)
	}
	return nil
}
