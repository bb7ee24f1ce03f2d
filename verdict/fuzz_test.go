// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"slices"
	"testing"
)

// FuzzDecide makes a world from bytes, one for each choice, and checks what is true in every world.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{})                                                           // nothing at all
	f.Add([]byte{0, 0, 0, 1, 4, 0, 0, 0, 2, 4, 2, 8})                         // one taint, no toleration
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 6, 1, 2, 0, 0, 0, 2, 8, 2, 1, 8})       // tolerated for five minutes, bound an hour later
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 10, 1, 2, 0, 0, 0, 2, 3, 3, 4})         // tolerated for the longest possible time
	f.Add([]byte{0, 3, 1, 0, 0, 0, 0, 5, 1, 2, 0, 0, 0, 2, 3, 3, 4})          // at the end of time
	f.Add([]byte{1, 0, 1, 3, 0, 1, 0, 4, 1, 2, 0, 2, 0, 1, 9, 0, 1, 9})       // Gt, and a clock that is ahead
	f.Add([]byte{0, 0, 0, 2, 1, 0, 0, 0, 2, 2, 1, 0, 0, 0, 1, 2, 9})          // two taints, one without a timeAdded
	f.Add([]byte{0, 0, 2, 0, 3, 0, 4, 5, 0, 0, 0, 0, 12, 1, 1, 0, 0, 0, 2})   // a toleration that shadows another
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0, 2, 0, 1, 0, 0, 2, 0, 2, 0, 2, 2, 0}) // taints due at once
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(diceOf(data))
		for _, invariant := range invariants {
			invariant.check(t, w)
		}
	})
}

// diceOf reads a byte for each roll, and continues with zeros.
func diceOf(data []byte) dice {
	rest := slices.Clone(data)
	return func(n int) int {
		if len(rest) == 0 {
			return 0
		}
		next := rest[0]
		rest = rest[1:]
		return int(next) % n
	}
}
