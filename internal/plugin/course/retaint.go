// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// Change is a change of taints.
type Change struct {
	// Nodes are the nodes after it.
	Nodes []*corev1.Node
	At    time.Time
	// WhereTo asks the scheduler's filters and scores where successors go. Questions is how often nodes may be asked.
	WhereTo   bool
	Questions int
}

// Outcome is what follows from a change of taints until nothing is left to happen.
type Outcome struct {
	// Policies are the EvictionPolicies; nil without any.
	Policies *policies.Set
	// Pods are the due pods that policies select, by UID, of those that there are at the start.
	Pods map[types.UID]*Selected
	// Trips says which breakers open because of the change, by policy.
	Trips map[string]Trip
	// WhereTo says where the successors of pods go, by UID. Late is how many fit no node at first.
	WhereTo map[types.UID]*cliv1alpha1.WhereTo
	Late    int
	// Workloads are those with ready pods that leave the nodes that change or are preempted, in no particular order.
	Workloads []cliv1alpha1.PlannedWorkload
	// Came is how many pods come to each node that changes, with WhereTo.
	Came map[string]int
	// Budgets says what happens to each PodDisruptionBudget, by namespace/name.
	Budgets map[string]Budget
	// Preempted are the pods that make room for successors, in the order in which they leave.
	Preempted []Preempted

	nodes map[string]bool // those that change
	over  bool            // nothing is left to happen, and pods leave that policies hold
}

// Budget is what happens to a PodDisruptionBudget: how many disruptions it allows at the start, and by how many its
// healthy pods are then fewer at the worst instant.
type Budget struct{ Allowed, Missing int }

// Selected is a due pod that policies select.
type Selected struct {
	policies.Candidate
	policies.Course

	due       time.Time // when policies were first asked
	overruled bool      // a deadline has ended
}

// Trip says when and why a breaker opens.
type Trip struct {
	At  time.Time
	Why string
}

// Retaint plays what follows if the taints of nodes change and nothing else happens: no node falls silent or is tainted
// by node health. Pods that leave get successors, which become ready and so make room in budgets. Successors stay where
// they come, so that the course ends. At most the time of [Longest] is played. At the end, the pods leave that policies
// hold, to see where their successors would go.
func Retaint(ctx context.Context, cluster *state.Cluster, change Change) (*Outcome, error) {
	s := newSimulation(ctx, cluster, Options{
		At: change.At, StartDelay: DefaultStartDelay, WhereTo: change.WhereTo, Questions: change.Questions,
	})
	s.outcome = &Outcome{
		Pods: map[types.UID]*Selected{}, Trips: map[string]Trip{}, WhereTo: map[types.UID]*cliv1alpha1.WhereTo{},
		Came: map[string]int{}, Budgets: map[string]Budget{}, nodes: map[string]bool{},
	}
	if s.policies != nil {
		s.outcome.Policies = s.policies.set
	}
	if change.WhereTo {
		if err := s.makeRoom(); err != nil {
			return nil, err
		}
	}
	s.end = s.start.Add(Longest)
	for _, node := range change.Nodes {
		s.outcome.nodes[node.Name] = true
		s.queue.add(s.start, stepped, func(now time.Time) { s.becomes(node, now) })
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	s.sumUp()
	if !change.WhereTo {
		return s.outcome, nil
	}
	s.outcome.over = true
	for _, node := range change.Nodes {
		s.letGo(s.nodes[node.Name])
	}
	err := s.run()
	s.tellBlocked()
	for _, p := range s.attachments.waiting {
		s.outcome.waits(p.of, s.attachments.why(p))
	}
	return s.outcome, err
}

// loses counts a pod that leaves, if it is ready.
func (c *Outcome) loses(p *pod) {
	if p.counted && p.workload != nil {
		p.workload.leave++
	}
}

// sumUp says what the course did to workloads, budgets and nodes.
func (s *simulation) sumUp() {
	for key, c := range s.workloads {
		if c.leave > 0 {
			s.outcome.Workloads = append(s.outcome.Workloads, cliv1alpha1.PlannedWorkload{
				Owner: key.owner, Namespace: key.namespace, Replicas: c.first(), Leave: c.leave, Lowest: c.lowest().number,
			})
		}
	}
	for name := range s.outcome.nodes {
		for _, p := range s.nodes[name].pods {
			s.outcome.Came[name] += count(p.asked)
		}
	}
	for name, b := range s.allowed {
		s.outcome.Budgets[name] = Budget{Allowed: b.allowedFirst(), Missing: b.first() - b.lowest().number}
	}
}

// letGo lets the pods leave that must leave a node.
func (s *simulation) letGo(n *node) {
	for _, p := range slices.Clone(n.pods) {
		if p.first && (p.begun && p.stage == bound || s.decided(p, n).Leaves) {
			s.leave(p, s.now)
		}
	}
}

// goes records where the successor of a pod goes, if it is known. Of is nil for a pod that waited for a node at the
// start.
func (c *Outcome) goes(of *pod, where *cliv1alpha1.WhereTo) {
	if of == nil || !of.first || where == nil {
		return
	}
	if before := c.WhereTo[of.UID]; before != nil && before.Node == "" && where.Node != "" {
		c.Late++
	}
	c.WhereTo[of.UID] = where
}

// waits warns that the successor of a pod has a node, but waits for a volume without end.
func (c *Outcome) waits(of *pod, why string) {
	if of == nil || !of.first || c.WhereTo[of.UID] == nil {
		return
	}
	warning := cliv1alpha1.PlacementWarning{Type: cliv1alpha1.WarningVolume, Message: why}
	c.WhereTo[of.UID].Warnings = append(c.WhereTo[of.UID].Warnings, warning)
}

// hears records what policies say about a due pod.
func (c *Outcome) hears(about *policy.Leaver, l leaver, said policy.Said, node policies.Node, now time.Time) {
	if len(about.By) == 0 || c.over || !l.first {
		return
	}
	is := c.Pods[l.UID]
	if is == nil {
		is = &Selected{Candidate: policies.Candidate{Pod: l.is, Node: node, By: about.By, Causes: about.Causes}, due: now}
		c.Pods[l.UID] = is
	}
	if is.due.Equal(now) { // the last answer of an instant counts
		is.First, is.Last = said.Answer, policy.Answer{}
	}
	is.overruled = is.overruled || is.Last.EndsByDeadline() && is.Last.Until.Equal(now)
	if said.Stays() {
		is.Last = said.Answer
		return
	}
	is.Leaves, is.Asks, is.Deletes = now, said.Step == policy.Ask, said.Until
	if is.overruled && !is.Asks {
		is.Deletes = now
	}
}

// flips records that a breaker opens for the first time, and why; why is empty if it closes.
func (c *Outcome) flips(p *policy.Policy, why string, now time.Time) {
	if _, again := c.Trips[p.Name]; why != "" && !again && !p.DryRun && !c.over {
		c.Trips[p.Name] = Trip{now, why}
	}
}
