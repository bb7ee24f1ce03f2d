// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// gatherFor is how long changes are gathered before breakers count them without being asked.
	gatherFor = 100 * time.Millisecond
	// advanceAtMost is the shortest time between two calls of [policy.Engine.Next].
	advanceAtMost = 10 * time.Millisecond
)

// with lets a function use the engine and what the lock protects.
func (f *Follower) with(use func(e *policy.Engine, now time.Time)) {
	f.mu.Lock()
	use(f.engine, f.config.Clock.Now())
	pending := f.engine.Pending()
	f.mu.Unlock()
	if pending {
		f.wake()
	}
}

// wake makes [Follower.advanceEngine] look at the engine.
func (f *Follower) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// advanceEngine lets time pass in the engine, and notifies about nodes whose answers change with it. Before all nodes
// and pods are known, counts are meaningless.
func (f *Follower) advanceEngine(ctx context.Context) error {
	if !cache.WaitFor(ctx, "", f.config.Nodes, f.config.Pods) {
		return nil
	}
	for {
		var nodes, flipped []string
		wait := countEvery // an open breaker can close because more pods are selected
		f.with(func(e *policy.Engine, now time.Time) {
			var again time.Time
			if nodes, flipped, again = e.Next(now); !again.IsZero() {
				wait = min(wait, again.Sub(now))
			}
		})
		if len(flipped) > 0 {
			f.config.Logger.Info("Breakers have tripped or closed", "policies", flipped)
		}
		if len(nodes) > 0 || len(flipped) > 0 {
			f.notify(nodes...)
		}
		soonest := time.After(advanceAtMost)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		case <-f.changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-soonest:
		}
	}
}

// readAll reports whether all policies, nodes and pods are known. The caller holds the lock.
func (f *Follower) readAll() bool {
	return f.read && f.config.Nodes.HasSynced() && f.config.Pods.HasSynced()
}

// Says returns what the policies say about a pod that is due because of some of these taints of its node. Again is the
// next instant at which that can change by itself; zero if there is none.
func (f *Follower) Says(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) (said policy.Said) {
	f.with(func(e *policy.Engine, now time.Time) {
		switch is := f.leaver(pod, node, taints); {
		case !f.readAll():
			said.Answer = policy.Unread
		case is != nil:
			said = e.Decide(is, now).Said
		}
	})
	f.reports(said)
	return said
}

// Look returns what the policies say about the due pods of a node. Pods that lack places in paces or budgets wait for
// them in line until the next look, and no other pods of the node do.
func (f *Follower) Look(name string, node *nodecache.Node, due []*podcache.Pod) (said []policy.Said) {
	f.with(func(e *policy.Engine, now time.Time) {
		leavers := make([]*policy.Leaver, len(due))
		known := f.readAll()
		for i, pod := range due {
			if known {
				leavers[i] = f.leaver(pod, node, node.NoExecute)
			}
		}
		said = e.Look(name, leavers, now)
		for i := range said {
			if !known {
				said[i].Answer = policy.Unread
			}
		}
	})
	f.reports(said...)
	return said
}

// reports wakes the writer of statuses if a policy holds a pod. That a pod must be read first passes in a moment.
func (f *Follower) reports(said ...policy.Said) {
	for _, is := range said {
		if is.Stays() && is.Why != policy.PodUnread {
			f.conditionMayChange()
			return
		}
	}
}

// Begin takes a pod's places until End, when its eviction begins with a delete or a request to the Eviction API. It
// reports false if the pod may not leave that way now.
func (f *Follower) Begin(pod *podcache.Pod, node *nodecache.Node, asks bool) (begins bool) {
	f.with(func(e *policy.Engine, now time.Time) {
		is := f.leaver(pod, node, node.NoExecute)
		begins = f.readAll() && (is == nil && !asks || is != nil && e.Begin(is, asks, now))
	})
	return begins
}

// End is called when an eviction that began has ended; it is told whether the pod is known to stay. If not, the pod
// counts as having left.
func (f *Follower) End(node string, pod types.UID, stays bool) {
	f.with(func(e *policy.Engine, now time.Time) { e.End(node, pod, stays, now) })
}

// cluster is what the engine asks a Follower, which holds the lock then.
type cluster struct{ f *Follower }

// Leaving implements [policy.Cluster].
func (c cluster) Leaving(name string, _ time.Time) (leaving []*policy.Leaver) {
	node, ok := c.f.config.Nodes.Tainted(name)
	if !ok {
		return nil
	}
	for _, pod := range c.f.config.Pods.OnNode(name) {
		if pod.Flags&(podcache.Mirror|podcache.Terminating) != 0 {
			continue
		}
		if is := c.f.leaver(pod, node, node.NoExecute); is != nil && len(is.Causes) > 0 {
			leaving = append(leaving, is)
		}
	}
	return leaving
}

// Tainted implements [policy.Cluster].
func (c cluster) Tainted() (nodes []string) {
	for _, node := range c.f.config.Nodes.All() {
		if len(node.NoExecute) > 0 {
			nodes = append(nodes, node.Name)
		}
	}
	return nodes
}

// Read implements [policy.Cluster].
func (c cluster) Read(pod *policy.Leaver) {
	is := pod.Memo.(leaving)
	c.f.facts.need(is.pod, is.known)
}

// podChanged applies a change of a pod that may change answers. The Evictor follows whether pods are due.
func (f *Follower) podChanged(change podcache.Change) {
	before, after := change.Before, change.After
	stays := before != nil && after != nil
	if stays && (before.Flags ^ after.Flags).Has(podcache.Ready) {
		f.facts.turns(after)
	}
	if len(f.all()) == 0 {
		return
	}
	name := cmp.Or(before, after).Node
	_, tainted := f.config.Nodes.Tainted(name)
	f.with(func(e *policy.Engine, now time.Time) {
		if tainted {
			e.MarkStale(name)
		}
		f.followPod(e, before, after, now)
	})
	if tainted && stays && seesOther(before, after) {
		f.notify(name)
	}
}

// followPod counts a pod that starts to leave its node, no matter who deleted it, and notes that policies may select
// other pods than when these were counted. The caller holds the lock.
func (f *Follower) followPod(e *policy.Engine, before, after *podcache.Pod, now time.Time) {
	if before == nil {
		f.counts.came = true
		return
	}
	relabeled := after != nil && !podcache.SameLabels(before, after)
	f.counts.came = f.counts.came || relabeled
	leaves := leavesNow(before, after)
	if !leaves && (!relabeled || before.Flags.Has(podcache.Terminating)) {
		return
	}
	node, ok := f.config.Nodes.Get(before.Node)
	if ok {
		f.lose(node, before)
	}
	if leaves {
		f.countLeft(e, before, node, now)
	}
}

// countLeft counts a pod that leaves its node; nil if the node is gone. The caller holds the lock.
func (f *Follower) countLeft(e *policy.Engine, pod *podcache.Pod, node *nodecache.Node, now time.Time) {
	if node != nil && len(node.NoExecute) > 0 {
		if is := f.selected(f.policies, pod, node); is != nil {
			e.Left(is, now)
			return
		}
	}
	e.Gone(pod.UID, now)
}

// leavesNow reports whether a pod has started to leave its node.
func leavesNow(before, after *podcache.Pod) bool {
	return !before.Flags.Has(podcache.Terminating) && (after == nil || after.Flags.Has(podcache.Terminating))
}

// seesOther reports whether policies see another pod than before.
func seesOther(before, after *podcache.Pod) bool {
	const seen = podcache.Finished | podcache.Ready | podcache.Pending
	return !podcache.SameLabels(before, after) || (before.Flags^after.Flags)&seen != 0
}

// nodeChanged applies a change of a node that may change answers. The Evictor follows its taints.
func (f *Follower) nodeChanged(change nodecache.Change) {
	before, after := change.Before, change.After
	name := cmp.Or(before, after).Name
	var taints []verdict.Taint
	if after != nil {
		taints = after.NoExecute
	}
	notifies := false
	f.with(func(e *policy.Engine, now time.Time) {
		f.unready.follow(before, after, now)
		e.SetTaints(name, taints)
		relabeled := f.followLabels(before, after)
		switch {
		case before == nil || !before.SameTaints(after):
			e.MarkStale(name)
		case len(taints) > 0 && len(f.policies) > 0:
			notifies = relabeled || readiness.IsReady(before.Node) != readiness.IsReady(after.Node)
		}
	})
	if notifies {
		f.notify(name)
	}
}

// followLabels notes that policies may select other pods because the labels of a node have changed, and reports whether
// they have. The caller holds the lock.
func (f *Follower) followLabels(before, after *nodecache.Node) bool {
	if before != nil && after != nil && labels.Equals(before.Labels, after.Labels) {
		return false
	}
	f.counts.came = f.counts.came || after != nil
	if before != nil {
		f.lose(before, f.config.Pods.OnNode(before.Name)...)
	}
	return true
}
