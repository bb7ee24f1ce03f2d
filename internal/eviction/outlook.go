// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"iter"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/podcache"
)

// Overdue returns how many pods are due and still there, by the names of their nodes.
func (e *Evictor) Overdue() map[string]int {
	overdue := map[string]int{}
	for pod := range e.overdueBy(0) {
		overdue[pod.Node]++
	}
	return overdue
}

// Stalled reports whether pods have been due for longer than the given time although no eviction was begun in it: then
// something is wrong with this process, whatever else it does.
func (e *Evictor) Stalled(after time.Duration) bool {
	if time.Since(e.turns.lastBegun()) <= after {
		return false
	}
	for pod := range e.overdueBy(after) {
		if !e.attempts.begun(leaving{pod: pod}.request()) {
			return true
		}
	}
	return false
}

// Versions returns the resourceVersions that the watches of nodes and of pods have come to. Where the API server is
// heard they change at least once a minute, with its bookmarks.
func (e *Evictor) Versions() []string {
	return []string{e.nodes.cache.LastSyncResourceVersion(), e.pods.LastSyncResourceVersion()}
}

// overdueBy returns the pods that have been due for longer than the given time and are still there.
func (e *Evictor) overdueBy(late time.Duration) iter.Seq[*podcache.Pod] {
	return func(yield func(*podcache.Pod) bool) {
		for _, leaving := range e.decisions.dueBefore(now().Add(-late)) {
			pod, ok := e.pods.Get(leaving.pod.UID)
			if ok && !pod.Flags.Has(podcache.Terminating) && !yield(pod) {
				return
			}
		}
	}
}
