// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package histories plays random histories of a small cluster, in virtual time, to Kubernetes' own controllers and to
// Taintkeeper's, and compares what they did. It is made of tests only. There is one game with two rules:
//
//   - evictions: the taint-eviction controllers. Which pods were deleted, and when?
//   - health: the node-lifecycle controllers. Which taints, since when, and which readiness had each node over time?
//
// A difference is not explained by looking at it. One small model predicts ours, and says what the rule is. Another
// predicts upstream's: its switches are the known quirks of upstream, each of which is a difference from the rule. Both
// must be right to the millisecond. A history for which one is wrong fails the test, and is made as small as it gets.
//
// A [history] is what happens, and when: a generator draws it, [play] plays it to a [contestant] in a [world], and
// [simulate] to a [model]. Their [outcome] is compared in a [trial].
package histories
