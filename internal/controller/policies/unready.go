// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// unreadyNodes knows since when nodes have not been ready.
type unreadyNodes map[string]time.Time

// of returns since when a node has not been ready; zero if it is ready. Of a node that was not ready when it was first
// seen, its condition says so.
func (u unreadyNodes) of(node *nodecache.Node, clock *timeline.Clock) time.Time {
	ready := readiness.Condition(node.Node, corev1.NodeReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return time.Time{}
	}
	since, known := u[node.Name]
	if !known {
		if since = clock.Now(); ready != nil {
			since = clock.See().Since(&ready.LastTransitionTime)
		}
		u[node.Name] = since
	}
	return since
}

// follow follows whether a node is ready.
func (u unreadyNodes) follow(before, after *nodecache.Node, now time.Time) {
	switch {
	case after == nil || readiness.IsReady(after.Node):
		delete(u, cmp.Or(before, after).Name)
	case before != nil && readiness.IsReady(before.Node):
		u[after.Name] = now
	}
}
