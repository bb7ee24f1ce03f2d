// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// HasFailed reports whether a node says that it is not ready or has the taint of such a node, and whether it is
// unreachable. A node without conditions, as in a file, has not failed.
func HasFailed(node *corev1.Node) (failed, unreachable bool) {
	ready := readiness.Condition(node, corev1.NodeReady)
	failed = ready != nil && ready.Status != corev1.ConditionTrue
	unreachable = failed && ready.Status == corev1.ConditionUnknown
	for _, taint := range node.Spec.Taints {
		failed = failed || taint.Key == corev1.TaintNodeNotReady
		unreachable = unreachable || taint.Key == corev1.TaintNodeUnreachable
	}
	return failed || unreachable, unreachable
}

// ZonesOf counts the nodes that have failed in each zone, by name.
func ZonesOf(nodes []*corev1.Node) (zones []cliv1alpha1.ZoneNodes) {
	by := map[string]cliv1alpha1.ZoneNodes{}
	for _, node := range nodes {
		name := strings.Trim(readiness.ZoneName(topology.GetZoneKey(node)), "/") // most clusters have no region
		zone := by[name]
		zone.Zone = name
		zone.Nodes++
		failed, unreachable := HasFailed(node)
		if failed {
			zone.NotReady++
		}
		if unreachable {
			zone.Unreachable++
		}
		by[name] = zone
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		zones = append(zones, by[name])
	}
	return zones
}

// FailedNodes says how many nodes have failed, and how many in each zone if there are several. It is empty if there are
// no nodes.
func FailedNodes(zones []cliv1alpha1.ZoneNodes) string {
	var all cliv1alpha1.ZoneNodes
	var by []string
	for _, zone := range zones {
		all.Nodes += zone.Nodes
		all.NotReady += zone.NotReady
		all.Unreachable += zone.Unreachable
		if zone.NotReady > 0 {
			by = append(by, fmt.Sprintf("%d of %d in zone %s", zone.NotReady, zone.Nodes, zone.Zone))
		}
	}
	says := sentence.Part(all.NotReady, all.Nodes, "node", "is", "are")
	switch {
	case all.Nodes == 0:
		return ""
	case all.NotReady == 0:
		return sentence.Are(all.Nodes, "node") + " ready"
	case all.Unreachable == 0:
		says += " not ready"
	case all.Unreachable == all.NotReady:
		says += " unreachable"
	default:
		says += fmt.Sprintf(" not ready, %d of them unreachable", all.Unreachable)
	}
	if len(zones) > 1 && len(by) > 0 {
		says += ": " + sentence.Enumerate(by)
	}
	return says
}

// IsDisrupted reports whether at least half of the nodes of a zone have failed.
func IsDisrupted(zones []cliv1alpha1.ZoneNodes) bool {
	return slices.ContainsFunc(zones, func(zone cliv1alpha1.ZoneNodes) bool { return 2*zone.NotReady >= zone.Nodes })
}
