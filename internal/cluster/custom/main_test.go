// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"testing"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) { bubble.Main(m) }
