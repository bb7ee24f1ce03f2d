// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"time"
)

// BuiltIn follows how the built-in controller's backlog grows, in a cluster in which the built-in runs and an admission
// policy keeps it from evicting; see coexist.Account. It is called concurrently.
type BuiltIn interface {
	// Decided is called with each decision about a node, before any pod is evicted because of it. It returns at once.
	Decided(decision NodeDecision)
	// Recorded returns once all decisions are recorded in the cluster. No pod may be evicted before then: if this
	// process is killed, only the record keeps the built-in from deleting pods that took the names of evicted ones. If
	// it returns an error, the built-in is left to evict.
	Recorded(ctx context.Context) error
}

// NodeDecision is what the built-in does about the pods of a node, and which of them stay.
type NodeDecision struct {
	Node string
	// Tries is how many evictions the built-in has begun since the last decision, From the instant of the first of these.
	Tries int
	From  time.Time
	// Due is how many pods of all nodes are due now, including those that are held, refused or terminating. If the
	// built-in restarts, it tries all of them again.
	Due int
	// Spared is when the last pod that the built-in tried and that stays was spared; zero if there is none.
	Spared time.Time
	// Stays reports whether some pod of the node stays, for now or for good, whether it was tried or not.
	Stays bool
}

// alone is the BuiltIn of a cluster in which the built-in does not run.
type alone struct{}

func (alone) Decided(NodeDecision)           {}
func (alone) Recorded(context.Context) error { return nil }

// notRecordedError says that an eviction waits until the built-in's backlog is recorded. It hides the kind of the
// underlying error, because the eviction of this pod was not refused.
type notRecordedError struct{ cause error }

// Error implements error.
func (e notRecordedError) Error() string {
	return "no pod is evicted before the built-in controller's backlog is recorded: " + e.cause.Error()
}
