// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain leaves client-go's error handlers the one that logs. The other sleeps until a little after the previous error
// of the process, and real or another bubble's time can be years ahead of a bubble's: what met an error stood still.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}
