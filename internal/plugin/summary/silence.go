// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Silence says when the nodes of a plan fall silent, when they are tainted NoExecute, and which are held back.
func Silence(plan *cliv1alpha1.TaintPlan) []string {
	if !plan.Silent {
		return nil
	}
	silent := func(node cliv1alpha1.PlannedNode) *metav1.MicroTime { return node.SilentAt }
	tainted := func(node cliv1alpha1.PlannedNode) *metav1.MicroTime { return node.TaintedAt }
	var falls, turns, held groups
	for _, node := range byInstant(plan.Nodes, silent) {
		if node.SilentAt == nil {
			falls.add("Unknown already", node)
		} else {
			falls.add("Unknown "+in(plan, node.SilentAt), node)
		}
		if node.Held != "" {
			held.add("Held back, because "+node.Held, node)
		}
	}
	for _, node := range byInstant(plan.Nodes, tainted) {
		if node.TaintedAt != nil {
			turns.add("Tainted NoExecute, zone "+zoneOf(node), node)
		}
	}
	var lines []string
	for _, group := range slices.Concat(falls, held) {
		lines = append(lines, fmt.Sprintf("%s: %s.", group.what, namedOrCounted(group.nodes)))
	}
	for _, group := range turns {
		lines = append(lines, fmt.Sprintf("%s: %s.", group.what, inTurn(plan, group.nodes)))
	}
	return lines
}

// maxNamed is how many nodes are listed by name. If there are more, they are counted.
const maxNamed = 10

// namedOrCounted lists nodes, or counts them by zone.
func namedOrCounted(nodes []cliv1alpha1.PlannedNode) string {
	var parts []string
	if len(nodes) <= maxNamed {
		for i := range nodes {
			parts = append(parts, nodes[i].Name)
		}
		return strings.Join(parts, ", ")
	}
	count := map[string]int{}
	for i := range nodes {
		count[zoneOf(nodes[i])]++
	}
	for _, zone := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, sentence.Counted(count[zone], "node")+" of zone "+zone)
	}
	return sentence.Enumerate(parts)
}

// inTurn says when the nodes of a zone, sorted by that time, are tainted.
func inTurn(plan *cliv1alpha1.TaintPlan, nodes []cliv1alpha1.PlannedNode) string {
	if len(nodes) > maxNamed {
		return fmt.Sprintf("%d nodes, the first %s, the last %s",
			len(nodes), in(plan, nodes[0].TaintedAt), in(plan, nodes[len(nodes)-1].TaintedAt))
	}
	var parts []string
	for i := range nodes {
		parts = append(parts, nodes[i].Name+" "+in(plan, nodes[i].TaintedAt))
	}
	return strings.Join(parts, ", ")
}

func zoneOf(node cliv1alpha1.PlannedNode) string { return cmp.Or(node.Zone, "(none)") }

// byInstant sorts nodes by an instant. Nodes without one come first.
func byInstant(
	nodes []cliv1alpha1.PlannedNode, of func(cliv1alpha1.PlannedNode) *metav1.MicroTime,
) []cliv1alpha1.PlannedNode {
	at := func(node cliv1alpha1.PlannedNode) time.Time { return ptr.Deref(of(node), metav1.MicroTime{}).Time }
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b cliv1alpha1.PlannedNode) int {
		return at(a).Compare(at(b))
	})
}

// in formats the time until an instant of a plan.
func in(plan *cliv1alpha1.TaintPlan, at *metav1.MicroTime) string {
	if text := output.Relative(plan.At.Time, at.Time); text != "now" {
		return "in " + text
	}
	return "now"
}

// group is nodes that have something in common.
type group struct {
	what  string
	nodes []cliv1alpha1.PlannedNode
}

type groups []group

func (g *groups) add(what string, node cliv1alpha1.PlannedNode) {
	i := slices.IndexFunc(*g, func(known group) bool { return known.what == what })
	if i < 0 {
		*g, i = append(*g, group{what: what}), len(*g)
	}
	(*g)[i].nodes = append((*g)[i].nodes, node)
}
