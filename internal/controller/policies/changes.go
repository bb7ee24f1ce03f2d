// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// podChanged applies a change of a pod that may change answers. The Evictor follows whether pods are due.
func (f *Follower) podChanged(change podcache.Change) {
	before, after := change.Before, change.After
	if before != nil && after != nil && (before.Flags ^ after.Flags).Has(podcache.Ready) {
		f.facts.turns(after)
	}
	if len(f.all()) == 0 {
		return
	}
	f.with(func(e *policy.Engine, now time.Time) {
		for _, pod := range []*podcache.Pod{before, after} {
			if pod != nil && f.isTainted(pod.Node) {
				e.MarkStale(pod.Node)
			}
		}
		f.leaves(e, change, now)
		f.ages(change)
	})
	if before != nil && after != nil && f.isTainted(after.Node) && seesOther(before, after) {
		f.tell(after.Node)
	}
}

// ages notes that policies may select other pods than they did when these were counted. The caller holds the lock.
func (f *Follower) ages(change podcache.Change) {
	before, after := change.Before, change.After
	if after != nil && (before == nil || !podcache.SameLabels(before, after)) {
		f.counts.came = true
	}
	f.loseOf(change)
}

// loseOf notes that policies may no longer select a pod. The caller holds the lock.
func (f *Follower) loseOf(change podcache.Change) {
	before, after := change.Before, change.After
	if before == nil || before.Flags.Has(podcache.Terminating) {
		return
	}
	if after != nil && !after.Flags.Has(podcache.Terminating) && after.Node == before.Node &&
		podcache.SameLabels(before, after) {
		return
	}
	if node, ok := f.config.Nodes.Get(before.Node); ok {
		f.lose(node, before)
	}
}

// seesOther reports whether policies see another pod than before.
func seesOther(before, after *podcache.Pod) bool {
	const seen = podcache.Finished | podcache.Ready | podcache.Pending
	return !podcache.SameLabels(before, after) || (before.Flags^after.Flags)&seen != 0
}

// leaves counts a pod that starts to leave a tainted node, no matter who deleted it. The caller holds the lock.
func (f *Follower) leaves(e *policy.Engine, change podcache.Change, now time.Time) {
	before, after := change.Before, change.After
	if before == nil || before.Flags.Has(podcache.Terminating) || after != nil && !after.Flags.Has(podcache.Terminating) {
		return
	}
	if node, ok := f.config.Nodes.Get(before.Node); ok && len(node.NoExecute) > 0 {
		if is := f.selected(before, node); is != nil {
			e.Left(is, now)
			return
		}
	}
	e.Gone(before.UID, now)
}

func (f *Follower) isTainted(node string) bool {
	record, ok := f.config.Nodes.Get(node)
	return ok && len(record.NoExecute) > 0
}

// nodeChanged applies a change of a node that may change answers. The Evictor follows its taints.
func (f *Follower) nodeChanged(change nodecache.Change) {
	before, after := change.Before, change.After
	tells := false
	f.with(func(e *policy.Engine, now time.Time) {
		f.unready.follow(before, after, now)
		if after != nil && (before == nil || !labels.Equals(before.Labels, after.Labels)) {
			f.counts.came = true
		}
		f.followNode(e, before, after)
		switch {
		case before == nil:
			e.MarkStale(after.Name)
		case !before.SameTaints(after):
			e.MarkStale(before.Name)
		case len(f.policies) == 0 || after == nil || len(after.NoExecute) == 0:
		default:
			tells = !labels.Equals(before.Labels, after.Labels) ||
				readiness.IsReady(before.Node) != readiness.IsReady(after.Node)
		}
	})
	if tells {
		f.tell(after.Name)
	}
}

// followNode follows what is remembered about a node and its pods. The caller holds the lock.
func (f *Follower) followNode(e *policy.Engine, before, after *nodecache.Node) {
	if before == nil {
		return
	}
	var taints []verdict.Taint
	if after != nil {
		taints = after.NoExecute
	}
	e.SetTaints(before.Name, taints)
	if after == nil || !labels.Equals(before.Labels, after.Labels) {
		f.lose(before, f.config.Pods.OnNode(before.Name)...)
	}
}
