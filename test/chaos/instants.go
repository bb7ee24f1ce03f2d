// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// span is an instant that is known within bounds, or a time from one instant to another. Everything runs on one
// machine, so all instants are of one clock.
type span = oracle.Span

// distantFuture stands for the instant of anything that does not happen while this program runs.
var distantFuture = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)

// due says when a pod must leave a node with these taints, if it must while this program runs.
func (s podState) due(taints []oracle.Taint) (due span, leaves bool) {
	due = oracle.Rule{}.Due(oracle.Pod{Tolerations: s.tolerations, Bound: s.bound}, taints)
	return due, due.From.Before(distantFuture)
}
