// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Overdue are the pods of a node that are due and still there.
type Overdue struct {
	Pods  int
	Since time.Time // the first of them is due, by this machine's clock
}

// Overdue returns the pods that are due and still there, by the names of their nodes. It also counts those that have
// come due since the Evictor was stopped.
func (e *Evictor) Overdue() map[string]Overdue {
	all := map[string]Overdue{}
	for l := range e.overdueBy(0) {
		known := all[l.pod.Node]
		all[l.pod.Node] = Overdue{Pods: known.Pods + 1, Since: earliest(known.Since, l.due)}
	}
	return all
}

// Spares reports whether a node, as the API server shows it now, lets a pod stay that was due by what the Evictor knew
// last. A taint that it did not know counts from now on.
func (e *Evictor) Spares(live *corev1.Node) bool {
	at := now()
	var known []verdict.Taint
	if state, ok := e.nodes.get(live.Name); ok && state.uid == live.UID {
		known = state.facts.byOurs
	}
	var all []verdict.Taint
	for _, taint := range taints.NoExecute(live.Spec.Taints) {
		is := verdict.Taint{Taint: taint, Since: at}
		same := func(k verdict.Taint) bool { return k.Key == taint.Key && k.Value == taint.Value }
		if i := slices.IndexFunc(known, same); i >= 0 {
			is = known[i]
		}
		all = append(all, is)
	}
	for l := range e.overdueBy(0) {
		if l.pod.Node == live.Name && !e.config.Rule.Decide(l.pod.Rule(), all).DueAt(at) {
			return true
		}
	}
	return false
}

// Stalled reports whether pods have been due for longer than the given time although no eviction was begun in it: then
// something is wrong with this process, whatever else it does.
func (e *Evictor) Stalled(after time.Duration) bool {
	if time.Since(e.turns.lastBegun()) <= after {
		return false
	}
	for l := range e.overdueBy(after) {
		if !e.attempts.begun(l.request()) {
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
func (e *Evictor) overdueBy(late time.Duration) iter.Seq[leaving] {
	return func(yield func(leaving) bool) {
		for _, l := range e.decisions.dueBefore(now().Add(-late)) {
			pod, ok := e.pods.Get(l.pod.UID)
			if ok && !pod.Flags.Has(podcache.Terminating) && !yield(leaving{pod: pod, due: l.due}) {
				return
			}
		}
	}
}
