// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

const (
	// mostSingle is how many nodes have their own rows. If there are more, each zone has one.
	mostSingle = 12
	// mostWorkloads is how many workloads have a row.
	mostWorkloads = 20
)

// history is what the timeline of a simulation shows.
type history struct {
	*cliv1alpha1.SimulationReport

	// leaving are pods by the node that they leave. waiting are pods that find no room, by workload.
	leaving map[string][]moment
	waiting map[inNamespace][]moment
	nodes   map[string]nodePeriods
	counts  map[kind]int
}

// inNamespace identifies a workload.
type inNamespace struct {
	cliv1alpha1.Owner

	namespace string
}

// nodePeriods are the times at which a node is unreachable, and at which it has a NoExecute taint.
type nodePeriods struct{ unreachable, tainted []period }

// simulationTimeline draws what happens in a simulation. It has a row for every node, or, if there are many nodes, for
// every zone, and rows for the workloads that have fewer replicas.
func simulationTimeline(report *cliv1alpha1.SimulationReport) timeline {
	h := historyOf(report)
	t := newTimeline("What happens when, a row for each node and workload", newAxisTo(h.last(), report.Until.Duration),
		report.At.Time, during)
	var leftOut []string
	if len(report.Nodes) <= mostSingle {
		for i := range report.Nodes {
			t.addNode(h, &report.Nodes[i])
		}
	} else {
		for _, z := range zonesOf(report.Nodes, func(node cliv1alpha1.SimulatedNode) string { return node.Zone }) {
			t.addZoneOf(h, z)
		}
		leftOut = append(leftOut, "Nodes of the same zone share a row.")
	}
	drawn, all := min(len(report.Workloads), mostWorkloads), len(report.Workloads)
	for i := range drawn {
		t.addWorkload(h, &report.Workloads[i])
	}
	if drawn < all {
		leftOut = append(leftOut, fmt.Sprintf("The %d worst of %d workloads have a row.", drawn, all))
	}
	t.LeftOut = strings.Join(leftOut, " ")
	t.explain(h.counts)
	return t
}

func historyOf(report *cliv1alpha1.SimulationReport) *history {
	h := &history{
		SimulationReport: report, leaving: map[string][]moment{}, waiting: map[inNamespace][]moment{},
		nodes: map[string]nodePeriods{}, counts: map[kind]int{},
	}
	for i := range report.Pods {
		h.addPod(&report.Pods[i])
	}
	for i := range report.Nodes {
		node := &report.Nodes[i]
		is := nodePeriods{h.periodsOf(node, isUnreachable), h.periodsOf(node, isNoExecute)}
		h.nodes[node.Name] = is
		h.count(is.unreachable)
		h.count(is.tainted)
	}
	for i := range report.Workloads {
		h.count(h.periodsOfWorkload(&report.Workloads[i]))
	}
	return h
}

// count counts one object for each kind of period that it has.
func (h *history) count(periods []period) {
	found := map[kind]bool{}
	for _, p := range periods {
		found[p.kind] = true
	}
	for k := range found {
		h.counts[k]++
	}
}

// last returns when the last thing happens.
func (h *history) last() (last time.Duration) {
	for _, event := range h.Story {
		last = max(last, event.At.Duration)
		if event.Ends != nil {
			last = max(last, event.Ends.Duration)
		}
	}
	for i := range h.Workloads {
		for _, step := range h.Workloads[i].Steps {
			last = max(last, step.At.Duration)
		}
	}
	return last
}

func (h *history) addPod(pod *cliv1alpha1.SimulatedPod) {
	m := moment{pod: pod.Namespace + "/" + pod.Name, index: -1}
	if pod.LeavesAt != nil {
		m.kind, m.offset = kindLeft, pod.LeavesAt.Duration
		h.leaving[pod.Node] = append(h.leaving[pod.Node], m)
		h.counts[m.kind]++
	}
	if pod.WaitsSince != nil {
		m.kind, m.offset = kindNowhere, pod.WaitsSince.Duration
		workload := inNamespace{ownerOf(pod), pod.Namespace}
		h.waiting[workload] = append(h.waiting[workload], m)
		h.counts[m.kind]++
	}
}

// ownerOf returns the workload of a pod, or the pod itself.
func ownerOf(pod *cliv1alpha1.SimulatedPod) cliv1alpha1.Owner {
	return ptr.Deref(pod.Owner, cliv1alpha1.Owner{Kind: "Pod", Name: pod.Name})
}

// condition is a state that lasts while a node has certain taints.
type condition struct {
	kind kind
	what string
	is   func(taint string) bool
}

var (
	isUnreachable = condition{kindUnreachable, "unreachable", func(taint string) bool {
		return strings.HasPrefix(taint, corev1.TaintNodeUnreachable+":")
	}}
	isNoExecute = condition{kindTainted, "NoExecute taint", func(taint string) bool {
		return strings.HasSuffix(taint, ":"+string(corev1.TaintEffectNoExecute))
	}}
)

// periodsOf returns when the taints of a node fulfill a condition.
func (h *history) periodsOf(node *cliv1alpha1.SimulatedNode, of condition) (all []period) {
	lasts := false
	become := func(at time.Duration, taints []string) {
		is := slices.ContainsFunc(taints, of.is)
		switch {
		case is && !lasts:
			all = append(all, period{of.kind, at, h.Until.Duration, of.what})
		case !is && lasts:
			all[len(all)-1].to = at
		}
		lasts = is
	}
	become(0, node.Before)
	for _, step := range node.Steps {
		become(step.At.Duration, step.Taints)
	}
	return slices.DeleteFunc(all, func(p period) bool { return p.from == p.to })
}

// periodsOfWorkload returns when a workload has fewer ready replicas than at the start, and when it has none.
func (h *history) periodsOfWorkload(w *cliv1alpha1.SimulatedWorkload) (all []period) {
	lowest := 0
	for i, step := range w.Steps {
		p := period{kind: kindFewer, from: step.At.Duration, to: h.Until.Duration}
		if i+1 < len(w.Steps) {
			p.to = w.Steps[i+1].At.Duration
		}
		switch {
		case step.Ready >= w.Replicas:
			continue
		case step.Ready == 0:
			p.kind = kindLost
		}
		if last := len(all) - 1; last >= 0 && all[last].kind == p.kind && all[last].to == p.from {
			p.from, lowest = all[last].from, min(lowest, step.Ready)
			all = all[:last]
		} else {
			lowest = step.Ready
		}
		p.what = fmt.Sprintf("at least %d of %s ready", lowest, sentence.Counted(w.Replicas, "replica"))
		if p.kind == kindLost {
			p.what = fmt.Sprintf("0 of %s ready", sentence.Counted(w.Replicas, "replica"))
		}
		all = append(all, p)
	}
	return all
}

// addNode adds the row of a node.
func (t *timeline) addNode(h *history, node *cliv1alpha1.SimulatedNode) {
	pods := h.leaving[node.Name]
	r := row{Kind: "Node", Name: node.Name, Answer: leaving(len(pods))}
	if node.Zone != "" {
		r.Detail = "zone " + node.Zone
	}
	is := h.nodes[node.Name]
	t.add(r, pods, is.unreachable, is.tainted)
}

// addZoneOf adds the row of a zone.
func (t *timeline) addZoneOf(h *history, z zone[cliv1alpha1.SimulatedNode]) {
	var pods []moment
	var unreachable, tainted [][]period
	for i := range z.nodes {
		name := z.nodes[i].Name
		pods = append(pods, h.leaving[name]...)
		unreachable = append(unreachable, h.nodes[name].unreachable)
		tainted = append(tainted, h.nodes[name].tainted)
	}
	t.add(z.row(leaving(len(pods))), pods, union(unreachable), union(tainted))
}

// leaving says how many pods leave. It is empty if none does.
func leaving(pods int) string {
	if pods == 0 {
		return ""
	}
	return sentence.Do(pods, "pod", "leaves", "leave")
}

// union merges overlapping periods of several nodes into one, and says how many nodes it covers.
func union(ofNodes [][]period) (all []period) {
	type owned struct {
		period

		node int
	}
	var sorted []owned
	for node, periods := range ofNodes {
		for _, p := range periods {
			sorted = append(sorted, owned{p, node})
		}
	}
	slices.SortStableFunc(sorted, func(a, b owned) int { return cmp.Compare(a.from, b.from) })
	nodes := map[int]bool{}
	for _, is := range sorted {
		last := len(all) - 1
		if last < 0 || is.from > all[last].to {
			all, nodes = append(all, is.period), map[int]bool{}
			last++
		}
		nodes[is.node] = true
		all[last].to = max(all[last].to, is.to)
		all[last].what = fmt.Sprintf("%s: %s", is.what, sentence.Counted(len(nodes), "node"))
	}
	return all
}

// addWorkload adds the row of a workload.
func (t *timeline) addWorkload(h *history, w *cliv1alpha1.SimulatedWorkload) {
	lasts := length(w.LowestFor)
	if w.Unknown {
		lasts = "an unknown time"
	}
	t.add(row{
		Kind: w.Kind, Name: w.Namespace + "/" + w.Name, Detail: sentence.Counted(w.Replicas, "replica"),
		Answer: fmt.Sprintf("%d ready for %s", w.Lowest, lasts),
	}, h.waiting[inNamespace{w.Owner, w.Namespace}], h.periodsOfWorkload(w))
}

// during formats the time from one instant to another.
func during(first, last time.Duration) string {
	if first == last {
		return "+" + sentence.Span(first)
	}
	return fmt.Sprintf("+%s to +%s", sentence.Span(first), sentence.Span(last))
}

// length formats a span of a simulation.
func length(of metav1.Duration) string { return sentence.Span(of.Duration) }
