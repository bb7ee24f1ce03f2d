// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// Course is what EvictionPolicies do after a change of taints until nothing is left to happen.
type Course struct {
	// Pods are the due pods that policies select, by UID.
	Pods map[types.UID]*Selected
	// Trips says which breakers open because of the change, by policy.
	Trips map[string]Trip
}

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

// Retaint plays what follows if nodes become the given ones at an instant and nothing else happens: no node falls silent
// or is tainted by node health. Pods that leave get successors, which become ready and so make room in budgets; those get
// none, so that the course ends. At most the time of [Longest] is played.
func Retaint(ctx context.Context, cluster *state.Cluster, nodes []*corev1.Node, at time.Time) (*Course, error) {
	s := newSimulation(ctx, cluster, Options{At: at, StartDelay: DefaultStartDelay})
	s.course = &Course{Pods: map[types.UID]*Selected{}, Trips: map[string]Trip{}}
	s.end = s.start.Add(Longest)
	for _, node := range nodes {
		s.queue.add(s.start, stepped, func(now time.Time) { s.becomes(node, now) })
	}
	return s.course, s.run()
}

// hears records what policies say about a due pod.
func (c *Course) hears(about *policy.Leaver, l leaver, said policy.Said, node policies.Node, now time.Time) {
	if len(about.By) == 0 {
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
func (c *Course) flips(p *policy.Policy, why string, now time.Time) {
	if _, again := c.Trips[p.Name]; why != "" && !again && !p.DryRun {
		c.Trips[p.Name] = Trip{now, why}
	}
}
