// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// evicting is kube-controller-manager's evictions, if Taintkeeper does not evict. A nil one does nothing.
type evicting struct {
	evictor state.Evictor
	timers  map[*pod]verdict.Verdict
	queue   builtin.Queue
	begun   []leaver // by their numbers in the queue
	calls   once
	leaders int // how many have led and lost their Lease
}

// loadBuiltIn returns kube-controller-manager's evictions at the start, with those that have begun before, or nil if it
// does not evict.
func (s *simulation) loadBuiltIn() *evicting {
	if !s.cluster.IsBuiltIn() {
		return nil
	}
	e := &evicting{evictor: s.cluster.Evictor, timers: map[*pod]verdict.Verdict{}}
	e.calls = once{queue: &s.queue, kind: calls, do: func(now time.Time) { e.call(s, now) }}
	var due []leaver
	for _, name := range s.names {
		for _, p := range s.nodes[name].pods {
			timer := e.evictor.Decide(p.facts, p.on.taints)
			if e.evictor.Forgot(timer, s.start) {
				continue
			}
			if e.timers[p] = timer; timer.DueAt(s.start) && p.stage == bound {
				due = append(due, leaver{p, timer})
			}
		}
	}
	slices.SortStableFunc(due, func(a, b leaver) int { return a.verdict.Due.Compare(b.verdict.Due) })
	for _, l := range due {
		e.begin(s, []leaver{l}, l.verdict.Due)
	}
	return e
}

// look lets the controller look at pods on a node, because the node or the pods have changed.
func (e *evicting) look(now time.Time, pods ...*pod) {
	if e == nil {
		return
	}
	for _, p := range pods {
		e.timers[p] = e.evictor.Change(e.timers[p], p.facts, p.on.taints, now)
	}
}

// begin begins the evictions of pods that are due. They go on whatever happens. Without an API server, five tries fail
// within 50 ms, and the pod is forgotten.
func (e *evicting) begin(s *simulation, due []leaver, now time.Time) {
	for _, l := range due {
		if l.begun = true; now.Before(s.down) {
			continue
		}
		e.queue.Add(now)
		e.begun = append(e.begun, l)
		e.calls.set(timeline.Later(now, s.start))
	}
}

// call makes the calls that are made at an instant.
func (e *evicting) call(s *simulation, now time.Time) {
	begun, leader := e.begun, e.leaders
	e.queue.Advance(now, func(number int, at time.Time) {
		s.queue.add(timeline.Later(at, now), calls, func(now time.Time) {
			if l := begun[number]; l.stage == bound && leader == e.leaders && !now.Before(s.down) {
				s.evict(l, now)
			}
		})
	})
	_, next := e.queue.Next()
	e.calls.set(next)
}

// renewDeadline is for how long the leader of kube-controller-manager tries to renew its Lease before it exits.
const renewDeadline = 10 * time.Second

// loses makes the leader lose its Lease in an outage of the API server. The next leader begins all countdowns again.
func (e *evicting) loses(s *simulation, from, until time.Time) {
	if e == nil || until.Sub(from) < renewDeadline {
		return
	}
	s.queue.add(until, stepped, func(now time.Time) {
		if now.Before(s.down) {
			return
		}
		e.queue, e.begun, e.leaders = builtin.Queue{}, nil, e.leaders+1
		clear(e.timers)
		for _, name := range s.names {
			n := s.nodes[name]
			for _, p := range n.pods {
				p.begun = false
			}
			e.look(now, n.pods...)
			s.lookAt(n, now)
		}
	})
}

// compare says what would be different with Taintkeeper for the pods of the start, whatever becomes of successors.
func compare(
	ctx context.Context, report *cliv1alpha1.SimulationReport, cluster *state.Cluster, scenario *Scenario, options Options,
) ([]string, error) {
	with := *cluster
	with.Evictor, options.WhereTo = state.Evictor{Who: cliv1alpha1.WhoTaintkeeper}, false
	ours, err := Play(ctx, &with, scenario, options)
	if err != nil {
		return nil, err
	}
	is, then := leaving(report), leaving(ours)
	var compared state.Comparison
	for _, pod := range cluster.Pods {
		uid := state.WithUID(pod).UID
		compared.Add(is[uid], then[uid])
	}
	return compared.Notes(), nil
}

// leaving returns the pods of the start that leave, and when.
func leaving(report *cliv1alpha1.SimulationReport) map[types.UID]verdict.Verdict {
	all := map[types.UID]verdict.Verdict{}
	for i := range report.Pods {
		if pod := &report.Pods[i]; pod.UID != "" && pod.LeavesAt != nil {
			all[pod.UID] = verdict.Verdict{Reason: verdict.Reason{Leaves: true, Due: report.At.Add(pod.LeavesAt.Duration)}}
		}
	}
	return all
}
