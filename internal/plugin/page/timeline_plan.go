// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// planTimeline draws when pods leave in a plan. It has a row for every node, or, if there are many nodes, a row for
// every zone and for nodes with changes. places maps the index of a pod in the plan to its position in the page's list.
func planTimeline(plan *cliv1alpha1.TaintPlan, places map[int]int) timeline {
	byNode := map[string][]moment{}
	var offsets []time.Duration
	counts := map[kind]int{}
	for i := range plan.Pods {
		m, ok := momentOf(&plan.Pods[i], plan.At.Time)
		if !ok {
			continue
		}
		if m.index, ok = places[i]; !ok {
			m.index = -1
		}
		byNode[plan.Pods[i].Node] = append(byNode[plan.Pods[i].Node], m)
		offsets = append(offsets, m.offset)
		counts[m.kind]++
	}
	t := newTimeline("When pods leave, a row for each node", newAxis(offsets), plan.At.Time,
		func(first, last time.Duration) string { return span(first, last, plan.At.Time) })
	t.explain(counts)
	nodes := plan.Nodes
	if len(nodes) > mostRows {
		for _, z := range zonesOf(nodes, func(node cliv1alpha1.PlannedNode) string { return node.Zone }) {
			t.addZone(z, byNode)
		}
		nodes = t.mostChanged(plan, byNode)
	}
	for _, node := range nodes {
		t.add(nodeRow(node), byNode[node.Name])
	}
	return t
}

// momentOf returns when a pod leaves, or would leave without the plan. A pod that stays with and without the plan has
// none.
func momentOf(pod *cliv1alpha1.PlannedPod, at time.Time) (m moment, ok bool) {
	m.kind = kindOf(pod)
	instant := pod.Due
	if m.kind == kindStays {
		instant = pod.DueBefore
	}
	if m.kind == kindNone || instant == nil {
		return m, false
	}
	m.pod, m.offset = pod.Namespace+"/"+pod.Name, max(instant.Sub(at), 0)
	return m, true
}

func (t *timeline) addZone(z zone[cliv1alpha1.PlannedNode], byNode map[string][]moment) {
	pods, leaving := 0, 0
	var moments []moment
	for _, node := range z.nodes {
		pods, leaving = pods+node.Pods, leaving+node.Leave
		moments = append(moments, byNode[node.Name]...)
	}
	t.add(z.row(sentence.Part(leaving, pods, "pod", "leaves", "leave")), moments)
}

// mostChanged returns as many nodes with changes as there is room for. Those that lose most pods come first.
func (t *timeline) mostChanged(plan *cliv1alpha1.TaintPlan, byNode map[string][]moment) []cliv1alpha1.PlannedNode {
	changes := func(m moment) bool { return m.kind != kindSame }
	nodes := slices.DeleteFunc(slices.Clone(plan.Nodes), func(node cliv1alpha1.PlannedNode) bool {
		return !slices.ContainsFunc(byNode[node.Name], changes)
	})
	changed := len(nodes)
	slices.SortStableFunc(nodes, func(a, b cliv1alpha1.PlannedNode) int { return cmp.Compare(b.Leave, a.Leave) })
	nodes = nodes[:min(len(nodes), mostRows)]
	t.LeftOut = fmt.Sprintf("Nodes with pods that the plan affects: %d of %d.", changed, len(plan.Nodes))
	if len(nodes) < changed {
		t.LeftOut += fmt.Sprintf(" The %d that lose the most pods have their own rows; the zones count all nodes. The plan with -o json has every node.", len(nodes))
	}
	return nodes
}

func nodeRow(node cliv1alpha1.PlannedNode) row {
	r := row{
		Kind: "Node", Name: node.Name, Emptied: node.Emptied,
		Answer: sentence.Part(node.Leave, node.Pods, "pod", "leaves", "leave"),
	}
	if node.Zone != "" {
		r.Detail = "zone " + node.Zone
	}
	return r
}

// span formats the time from one instant to another.
func span(first, last time.Duration, at time.Time) string {
	if first == last {
		return relative(first) + " (" + at.Add(first).UTC().Format(time.RFC3339) + ")"
	}
	return fmt.Sprintf("%s to %s (%s to %s)", relative(first), human(last),
		at.Add(first).UTC().Format(time.RFC3339), at.Add(last).UTC().Format(time.RFC3339))
}

func relative(offset time.Duration) string {
	if offset <= 0 {
		return "now"
	}
	return "in " + human(offset)
}
