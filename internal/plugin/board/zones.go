// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"

	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// defaultPolicy follows from the default flags of kube-controller-manager and Taintkeeper. The board cannot see whether
// a cluster's controllers have other flags.
var defaultPolicy = readiness.Policy{
	Rate: readiness.DefaultRate, SecondaryRate: readiness.DefaultSecondaryRate, FullDisruptionRate: readiness.DefaultRate,
	LargeZone: readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
}

// whyHeld says what the state of a zone means for its nodes that are not ready. everyZone means that all zones are in
// FullDisruption.
func whyHeld(zone *zoneRow, everyZone bool) string {
	counts := readiness.CountsOf(zone.NotReady, zone.Nodes)
	rate := defaultPolicy.RateOf(zone.State, zone.Nodes)
	switch {
	case zone.NotReady == 0:
		return ""
	case everyZone:
		return counts + ", as in every zone: the control plane is the more likely cause, and no node is tainted NoExecute"
	case rate == 0:
		return fmt.Sprintf("%s: with the default flags, no node is tainted NoExecute in a partially disrupted zone of %d nodes or fewer", counts, defaultPolicy.LargeZone)
	}
	return fmt.Sprintf("%s: one node is tainted NoExecute every %g s", counts, 1/rate)
}

// zoneOf names the zone of a node.
func zoneOf(node *corev1.Node) string {
	return sentence.Printable(readiness.ZoneName(topology.GetZoneKey(node)))
}

// zoneRows counts nodes and, once they are read, pods in their zones, and says which zones hold.
func (c *cluster) zoneRows() []zoneRow {
	zones := map[string]*zoneRow{}
	for node := range c.live.Nodes() {
		name := zoneOf(node.Node)
		if zones[name] == nil {
			zones[name] = &zoneRow{ID: name, Unread: !c.wasRead(follow.Pods)}
		}
		c.nodes[node.Name].countIn(zones[name], node)
	}
	full := 0
	for _, zone := range zones {
		zone.State = defaultPolicy.State(zone.Nodes, zone.NotReady)
		if zone.State == readiness.FullDisruption || zone.Nodes == 0 {
			full++
		}
	}
	rows := make([]zoneRow, 0, len(zones))
	for _, zone := range zones {
		zone.Why = whyHeld(zone, full == len(zones))
		rows = append(rows, *zone)
	}
	return rows
}

func (n *nodeRows) countIn(zone *zoneRow, node *state.LiveNode) {
	zone.Pending += len(n.pending)
	if len(node.Taints) > 0 {
		zone.Tainted++
	}
	if n.held != "" {
		zone.Held++
	}
	if _, excluded := node.Labels[readiness.ExcludedFromDisruption]; excluded {
		return
	}
	zone.Nodes++
	if !readiness.IsReady(node.Node) {
		zone.NotReady++
	}
}
