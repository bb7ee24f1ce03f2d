// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"os"
	"testing"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(serveEnvironment); mode != "" {
		serveGenerated(mode)
	}
	bubble.Main(m)
}
