// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline is the clock for Taintkeeper's deadlines: the monotonic clock of this process, which cannot be
// set. Everything that this process saw happen is on it exactly, and needs no other clock.
//
// Only what the API server recorded before this process looked (the timeAdded of a taint, the binding of a pod) must
// be dated, once, when it is first seen. For that the clock that is behind is used: the API server's, known from the
// Date of its answers, or this machine's. A wrong clock can therefore make an eviction late, and early only in the
// case that docs/concepts.md names. Setting a clock changes nothing.
package timeline
