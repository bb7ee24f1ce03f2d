// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Departures follows nodes from one reading to the next until no pod must leave anymore. It decides by the taints that
// a node has when it is read, no matter who set them. Nothing waits for a taint that was removed. The zero value is
// ready to use; it is not safe for concurrent use.
type Departures struct {
	nodes map[string]*departure
	had   map[types.UID]bool
	came  int
}

// departure is what is known about one node.
type departure struct {
	taints []verdict.Taint
	left   []Leaving
	there  map[types.UID]bool // the pods that were on it when it was first read
}

// Leaving is a pod that must leave, or is leaving, and still exists.
type Leaving struct {
	*corev1.Pod

	// Node is the pod's node as it was last read.
	Node    *corev1.Node
	Verdict verdict.Verdict
}

// Changed records that the taints of a node were changed at an instant: the taints before, and the node after it.
func (d *Departures) Changed(before []corev1.Taint, node *corev1.Node, at time.Time) {
	if d.nodes == nil {
		d.nodes, d.had = map[string]*departure{}, map[types.UID]bool{}
	}
	known := verdict.Advance(nil, before, verdict.SeenAt(at))
	d.nodes[node.Name] = &departure{taints: verdict.Advance(known, node.Spec.Taints, verdict.SeenAt(at))}
}

// Read records a node that was changed earlier, and all pods on it, as they were read at an instant.
func (d *Departures) Read(node *corev1.Node, pods []*corev1.Pod, at time.Time) {
	known := d.nodes[node.Name]
	// A taint may have been removed and set again between two readings.
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
		if state.IsStatic(pod) {
			continue
		}
		facts := verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: verdict.SeenAt(at).Start(verdict.Bound(pod))}
		decided := state.Rule.Decide(facts, known.taints)
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

// Gone records that a node no longer exists. Taints do not decide about its remaining pods.
func (d *Departures) Gone(node string) { d.nodes[node].left = nil }

// Left returns the pods that must leave and still existed when their nodes were last read, soonest first.
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

// Had returns how many pods ever had to leave, including those that are gone.
func (d *Departures) Had() int { return len(d.had) }

// Came returns how many of those were bound to their nodes after the first reading.
func (d *Departures) Came() int { return d.came }
