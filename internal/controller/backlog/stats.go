// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"
)

// Stats are counted on demand, so no gauge needs to be kept in step.
type Stats struct {
	Pending  int            // not due yet
	Held     int            // due, but a policy does not allow a try now
	Due      int            // due, and may be tried; includes those in flight
	InFlight int            // includes those whose pods may stay now
	Refused  map[string]int // due, with the last try refused, by what refused it

	Next    time.Time // when the first pending one is due
	Oldest  time.Time // when the first due one became due
	Untried time.Time // when the first due one to delete that was never tried became due
	Begun   time.Time // when the last try to delete a pod began
}

// Stats counts the evictions at an instant. It looks at each of them.
func (b *Backlog) Stats(now time.Time) Stats {
	s := Stats{Begun: b.lanes[Delete].begun, Refused: map[string]int{}}
	for _, l := range b.lanes {
		s.InFlight += len(l.inFlight)
	}
	for _, leaving := range b.nodes {
		for _, e := range leaving {
			if !e.unwanted {
				s.count(e, now)
			}
		}
	}
	return s
}

func (s *Stats) count(e *Eviction, now time.Time) {
	switch {
	case e.Due.After(now):
		s.Pending++
		s.Next = instant.Next(s.Next, e.Due)
		return
	case e.Answer.Held || e.Answer.After.After(now): // mayBeTried would copy more of each than it needs
		s.Held++
		return
	}
	s.Due++
	s.Oldest = instant.Next(s.Oldest, e.Due)
	if e.began.IsZero() && e.Lane == Delete {
		s.Untried = instant.Next(s.Untried, e.Due)
	}
	if e.Refuser != "" {
		s.Refused[e.Refuser]++
	}
}

// Overdue returns how long, at an instant, the oldest due pod has been due; zero if no pod is due.
func (s *Stats) Overdue(now time.Time) time.Duration {
	if s.Oldest.IsZero() {
		return 0
	}
	return now.Sub(s.Oldest)
}

// Due returns the pods that are due at an instant, by node, whether they may be tried or not. It copies each of them;
// for one node, DueOn is faster.
func (b *Backlog) Due(now time.Time) map[string][]Leaving {
	due := map[string][]Leaving{}
	for node := range b.nodes {
		if on := b.DueOn(node, now); len(on) > 0 {
			due[node] = on
		}
	}
	return due
}

// DueOn returns the pods of a node that are due at an instant, whether they may be tried or not.
func (b *Backlog) DueOn(node string, now time.Time) (due []Leaving) {
	leaving := b.nodes[node]
	for _, e := range leaving {
		if e.unwanted || e.Due.After(now) {
			continue
		}
		if due == nil {
			due = make([]Leaving, 0, len(leaving))
		}
		due = append(due, e.Leaving)
	}
	return due
}
