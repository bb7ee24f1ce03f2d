// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instant compares instants.
package instant

import "time"

// Earlier returns the earlier of two instants.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Later returns the later of two instants. It is not zero if one of them is not.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Next returns the earlier of two instants, of which either may be zero, which means none.
func Next(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
