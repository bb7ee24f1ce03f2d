// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline is the clock by which Taintkeeper keeps deadlines: the monotonic clock of this process, which nobody
// can set. What this process saw happen lies on it exactly, and needs no other clock.
//
// Only what the API server recorded before this process looked (the timeAdded of a taint, the binding of a pod) must
// be dated, once, when it is first seen. That takes the clock that is behind: the API server's, as the Date of its
// answers tells it, or this machine's. So a wrong clock can make an eviction late, never early, and setting a clock
// changes nothing.
package timeline
