// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// Departures follows nodes from one reading to the next until no pod is left that must leave. It decides by the taints
// that are there when a node is read, no matter who set them. A removed taint keeps nobody waiting. The zero value is
// ready; it is not safe for concurrent use.
type Departures struct {
	nodes map[string]*departure
	had   map[types.UID]bool
	came  int
}

// departure is what is known of one node.
type departure struct {
	taints []verdict.Taint
	left   []Leaving
	there  map[types.UID]bool // the pods that were on it when it was read first
}

// Leaving is a pod that must leave, or is leaving, and is still there.
type Leaving struct {
	*corev1.Pod

	// Node is the pod's node as it was read last.
	Node    *corev1.Node
	Verdict verdict.Verdict
}

// Changed takes a node whose taints were changed at an instant: what they were before, and the node as it is then.
func (d *Departures) Changed(before []corev1.Taint, node *corev1.Node, at time.Time) {
	if d.nodes == nil {
		d.nodes, d.had = map[string]*departure{}, map[types.UID]bool{}
	}
	known := verdict.Advance(nil, before, verdict.SeenAt(at))
	d.nodes[node.Name] = &departure{taints: verdict.Advance(known, node.Spec.Taints, verdict.SeenAt(at))}
}

// Read takes a node that was changed earlier, and all pods on it, as they were read at an instant.
func (d *Departures) Read(node *corev1.Node, pods []*corev1.Pod, at time.Time) {
	known := d.nodes[node.Name]
	// Between two readings a taint may have been taken off and set again.
	seen := verdict.SeenAt(at)
	seen.Gap, seen.NeverStamped = true, true
	known.taints, known.left = verdict.Advance(known.taints, node.Spec.Taints, seen), nil
	if known.there == nil {
		known.there = map[types.UID]bool{}
		for _, pod := range pods {
			known.there[pod.UID] = true
		}
	}
	for _, pod := range pods {
		if IsStatic(pod) {
			continue
		}
		facts := verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: verdict.SeenAt(at).Start(verdict.Bound(pod))}
		decided := Rule.Decide(facts, known.taints)
		if !decided.Leaves {
			continue
		}
		known.left = append(known.left, Leaving{pod, node, decided})
		if !known.there[pod.UID] && !d.had[pod.UID] {
			d.came++
		}
		d.had[pod.UID] = true
	}
}

// Gone takes a node that is no longer there. What is left of its pods is no longer a taint's business.
func (d *Departures) Gone(node string) { d.nodes[node].left = nil }

// Left returns the pods that must leave and were still there when their nodes were last read, the soonest first.
func (d *Departures) Left() []Leaving {
	var all []Leaving
	for _, node := range d.nodes {
		all = append(all, node.left...)
	}
	slices.SortFunc(all, func(a, b Leaving) int {
		return cmp.Or(a.Verdict.Due.Compare(b.Verdict.Due),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Had returns how many pods had to leave at some time, gone or not.
func (d *Departures) Had() int { return len(d.had) }

// Came returns how many of them were put on their nodes after these had been read first.
func (d *Departures) Came() int { return d.came }
