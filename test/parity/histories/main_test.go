// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	// One of client-go's error handlers sleeps until a little after the previous error of the process: another bubble's
	// error, whose virtual time may be ahead by minutes.
	utilruntime.ErrorHandlers = nil
	m.Run()
}
