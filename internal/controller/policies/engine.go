// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
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

// wake makes [Follower.advance] look at the engine.
func (f *Follower) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// advance lets time pass in the engine, and tells about nodes whose answers change with it. Before all nodes and pods
// are known, counts are meaningless.
func (f *Follower) advance(ctx context.Context) error {
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
			f.tell(nodes...)
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
func (f *Follower) Look(name string, node *nodecache.Node, due []*podcache.Pod) []policy.Said {
	said := make([]policy.Said, len(due))
	f.with(func(e *policy.Engine, now time.Time) {
		var leavers []*policy.Leaver
		var at []int // where they are among the due pods
		for i, pod := range due {
			switch is := f.leaver(pod, node, node.NoExecute); {
			case !f.readAll():
				said[i].Answer = policy.Unread
			case is != nil:
				leavers, at = append(leavers, is), append(at, i)
			}
		}
		for i, is := range e.Look(name, leavers, now) {
			said[at[i]] = is
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
	node, ok := c.f.config.Nodes.Get(name)
	if !ok || len(node.NoExecute) == 0 {
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
func (c cluster) Tainted() []string { return c.f.tainted() }

// Selected implements [policy.Cluster].
func (c cluster) Selected(p *policy.Policy, leave int, now time.Time) int {
	return c.f.selectedAtLeast(p, leave, now)
}

// Read implements [policy.Cluster].
func (c cluster) Read(pod *policy.Leaver) {
	is := pod.Memo.(leaving)
	c.f.facts.need(is.pod, is.known)
}
