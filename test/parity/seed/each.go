// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// Each tries the inputs at the first count indexes, in as many parallel subtests as there are processors. A subtest
// ends with its first failure.
func Each(t *testing.T, count int, try func(t *testing.T, index int)) {
	t.Helper()
	var taken atomic.Int64
	next := func() int { return int(taken.Add(1)) - 1 }
	t.Run("played", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for index := next(); index < count && !t.Failed(); index = next() {
					try(t, index)
				}
			})
		}
	})
}

// Again is the command that plays the input at an index again, in the test of a package of this module.
func Again(t *testing.T, folder string, index int) string {
	test, _, _ := strings.Cut(t.Name(), "/")
	return fmt.Sprintf("go test ./%s -run '^%s$' -v -args -seed=%d -only=%d", folder, test, Seed(), index)
}
