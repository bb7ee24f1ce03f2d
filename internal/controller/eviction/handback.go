// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Overdue are the pods of a node that are due, not held by a policy, and still there.
type Overdue struct {
	Pods  int
	Since time.Time // the first of them is due, on the timeline
}

// Overdue returns the pods that are due, not held by a policy, and still there, by the names of their nodes. It
// includes pods that became due after the Evictor was stopped.
func (e *Evictor) Overdue() map[string]Overdue {
	all := map[string]Overdue{}
	for node, leaving := range e.queue.due() {
		var on Overdue
		for _, l := range leaving {
			pod, ok := e.pods.There(l.UID)
			if !ok {
				continue
			}
			if _, held, _ := e.judge().held(pod, e.nodes); !held {
				on = Overdue{Pods: on.Pods + 1, Since: timeline.Next(on.Since, l.Due)}
			}
		}
		if on.Pods > 0 {
			all[node] = on
		}
	}
	return all
}

// Spares reports whether a pod may stay on a node as the API server shows it now, although, as far as the Evictor last
// knew, the pod was due. A taint that the Evictor did not know counts from now on.
func (e *Evictor) Spares(live *corev1.Node) bool {
	at := e.config.Clock.Now()
	var known []verdict.Taint
	if state, ok := e.nodes.get(live.Name); ok && state.UID == live.UID {
		known = state.NoExecute
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
	for _, l := range e.queue.dueOn(live.Name) {
		if pod, ok := e.pods.There(l.UID); ok && !e.config.Rule.Decide(pod.Rule(), all).DueAt(at) {
			return true
		}
	}
	return false
}

// Stalled reports whether a pod that was never tried has been due for longer than the given time, and nothing else was
// tried in that time either. In that case, something is wrong with this process.
func (e *Evictor) Stalled(after time.Duration) bool {
	s, now := e.queue.stats()
	return !s.Untried.IsZero() && now.Sub(s.Untried) > after && now.Sub(s.Begun) > after
}

// Versions returns the resourceVersions that the watches of nodes and of pods have reached. If the watches work, these
// change about once a minute, with bookmarks, though the first comes only after two minutes.
func (e *Evictor) Versions() []string {
	return []string{e.nodes.LastSyncResourceVersion(), e.pods.LastSyncResourceVersion()}
}
