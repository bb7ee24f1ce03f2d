// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

func TestMain(m *testing.M) { arena.Main(m) }

// count is how many histories TestHistories plays.
func count() int { return seed.Count(300) }
