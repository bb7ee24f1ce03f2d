// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// lookAtMost is the shortest time between two looks at breakers, apart from looks for an answer.
const lookAtMost = 100 * time.Millisecond

// podChanged applies a change of a pod that may change answers. The Evictor follows whether pods are due.
func (f *Follower) podChanged(change podcache.Change) {
	before, after := change.Before, change.After
	if before != nil && after != nil && (before.Flags ^ after.Flags).Has(podcache.Ready) {
		f.facts.turns(after)
	}
	if len(f.all()) == 0 {
		return
	}
	for _, pod := range []*podcache.Pod{before, after} {
		if pod != nil && f.isTainted(pod.Node) {
			f.demand.markStale(pod.Node)
		}
	}
	f.pace(change)
	f.loseOf(change)
	if before != nil && after != nil && f.isTainted(after.Node) && seesOther(before, after) {
		f.tell(after.Node)
	}
}

// loseOf notes that policies may no longer select a pod.
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

// pace counts a pod that starts to leave a tainted node, no matter who deleted it.
func (f *Follower) pace(change podcache.Change) {
	before, after := change.Before, change.After
	leaves := before != nil && !before.Flags.Has(podcache.Terminating) &&
		(after == nil || after.Flags.Has(podcache.Terminating))
	switch node, ok := f.config.Nodes.Get(cmp.Or(before, after).Node); {
	case leaves && ok && len(node.NoExecute) > 0:
		f.sights.forget(node.Name, before.UID, node.NoExecute)
		_, selecting := f.selecting(f.all(), before, node)
		f.line.left(policy.Counting(selecting, node.NoExecute), node, before.UID)
	case leaves:
		f.line.gone(before.UID)
	}
}

func (f *Follower) isTainted(node string) bool {
	record, ok := f.config.Nodes.Get(node)
	return ok && len(record.NoExecute) > 0
}

// nodeChanged applies a change of a node that may change answers. The Evictor follows its taints.
func (f *Follower) nodeChanged(change nodecache.Change) {
	before, after := change.Before, change.After
	f.followNode(before, after)
	switch {
	case len(f.all()) == 0:
	case before == nil:
		f.demand.markStale(after.Name)
	case !before.SameTaints(after):
		f.demand.markStale(before.Name)
	case after == nil || len(after.NoExecute) == 0:
	case !labels.Equals(before.Labels, after.Labels) || readiness.IsReady(before.Node) != readiness.IsReady(after.Node):
		f.tell(after.Name)
	}
}

// followNode follows what is remembered about a node and its pods.
func (f *Follower) followNode(before, after *nodecache.Node) {
	f.unready.changed(before, after)
	if before == nil {
		return
	}
	var taints []verdict.Taint
	if after != nil {
		taints = after.NoExecute
	}
	f.sights.keep(before.Name, taints)
	if after == nil || !labels.Equals(before.Labels, after.Labels) {
		f.lose(before, f.config.Pods.OnNode(before.Name)...)
	}
}

// watchBreakers reports breakers that open and close.
func (f *Follower) watchBreakers(ctx context.Context) error {
	for {
		flipped, news, again := f.demand.look()
		if len(flipped) > 0 {
			f.config.Logger.Info("Breakers have tripped or closed", "policies", flipped)
		}
		if news {
			f.tell(f.tainted()...)
		}
		wait := time.Hour // nothing changes with time alone
		if !again.IsZero() {
			wait = again.Sub(f.config.Clock.Now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(wait, lookAtMost)):
		case <-f.demand.changed:
		}
		select { // changes that come together are counted together
		case <-ctx.Done():
			return nil
		case <-time.After(lookAtMost):
		}
	}
}

// callWaiting reports the nodes of pods that wait for places when there is room for them.
func (f *Follower) callWaiting(ctx context.Context) error {
	for {
		nodes, again := f.line.call()
		f.tell(nodes...)
		wait := time.Hour // no pod waits
		if !again.IsZero() {
			wait = max(again.Sub(f.config.Clock.Now()), time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.line.changed:
		case <-time.After(wait):
		}
	}
}
