// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// unreadyNodes knows since when nodes have not been ready. It is safe for concurrent use.
type unreadyNodes struct {
	clock *timeline.Clock

	mu    sync.Mutex
	since map[string]time.Time
}

// of returns since when a node has not been ready; zero if it is ready. Of a node that was not ready when it was first
// seen, its condition says so.
func (u *unreadyNodes) of(node *nodecache.Node) time.Time {
	ready := readiness.Condition(node.Node, corev1.NodeReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return time.Time{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	since, known := u.since[node.Name]
	if !known {
		if since = u.clock.Now(); ready != nil {
			since = u.clock.See().Since(&ready.LastTransitionTime)
		}
		u.since[node.Name] = since
	}
	return since
}

// changed follows whether a node is ready.
func (u *unreadyNodes) changed(before, after *nodecache.Node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case after == nil || readiness.IsReady(after.Node):
		delete(u.since, cmp.Or(before, after).Name)
	case before != nil && readiness.IsReady(before.Node):
		u.since[after.Name] = u.clock.Now()
	}
}
