// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// States of zones, by upstream's names.
const (
	zoneNormal  = "Normal"
	zonePartial = "PartialDisruption"
	zoneFull    = "FullDisruption"
)

// The defaults of --unhealthy-zone-threshold and --large-cluster-size-threshold, in kube-controller-manager and in
// Taintkeeper. What the controllers of a cluster were told otherwise nobody can see from outside.
const (
	unhealthyShare = 0.55
	largeZone      = 50
)

// excludedFromDisruption is the label of nodes that do not count when the state of a zone is told.
const excludedFromDisruption = "node.kubernetes.io/exclude-disruption"

// disruption returns the state of a zone of so many nodes, of which so many are not ready: docs/node-health.md.
func disruption(size, notReady int) string {
	switch {
	case notReady > 0 && notReady == size:
		return zoneFull
	case notReady > 2 && float64(notReady)/float64(size) >= unhealthyShare:
		return zonePartial
	}
	return zoneNormal
}

// whyHeld says what a state means for the nodes of a zone that are not ready; everyZone: all zones are in FullDisruption.
func whyHeld(state string, size, notReady int, everyZone bool) string {
	counts := fmt.Sprintf("%d of %d nodes are not ready", notReady, size)
	switch {
	case notReady == 0:
		return ""
	case everyZone:
		return counts + ", and so it is in every zone: the control plane is the likelier culprit, and no node is tainted NoExecute"
	case state == zonePartial && size > largeZone:
		return counts + ": one node in 100 s is tainted NoExecute"
	case state == zonePartial:
		return fmt.Sprintf("%s: none is tainted NoExecute in a zone of %d nodes or fewer", counts, largeZone)
	}
	return counts + ": one node in 10 s is tainted NoExecute"
}

// zoneOf names the zone of a node for people: its region and zone labels.
func zoneOf(node *corev1.Node) string {
	return cmp.Or(strings.Replace(topology.GetZoneKey(node), ":\x00:", "/", 1), "(none)")
}

// zoneRows counts nodes in their zones, and says which zones hold.
func zoneRows(nodes map[string]*knownNode) []zoneRow {
	zones := map[string]*zoneRow{}
	for _, node := range nodes {
		zone := zones[node.zone]
		if zone == nil {
			zone = &zoneRow{ID: node.zone}
			zones[node.zone] = zone
		}
		node.countIn(zone)
	}
	full := 0
	for _, zone := range zones {
		if zone.State = disruption(zone.Nodes, zone.NotReady); zone.State == zoneFull || zone.Nodes == 0 {
			full++
		}
	}
	rows := make([]zoneRow, 0, len(zones))
	for _, zone := range zones {
		zone.Why = whyHeld(zone.State, zone.Nodes, zone.NotReady, full == len(zones))
		rows = append(rows, *zone)
	}
	return rows
}

func (n *knownNode) countIn(zone *zoneRow) {
	zone.Pending += len(n.pending)
	if n.noExecute {
		zone.Tainted++
	}
	if n.held != "" {
		zone.Held++
	}
	if n.excluded {
		return
	}
	zone.Nodes++
	if n.ready != string(corev1.ConditionTrue) {
		zone.NotReady++
	}
}
