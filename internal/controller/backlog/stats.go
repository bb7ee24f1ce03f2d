// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import "time"

// Stats count the evictions of a Backlog. They are counted when they are asked for, so no gauge must be kept in step.
type Stats struct {
	Pending  int            // not due yet
	Held     int            // due, and a policy does not let them be tried now
	Due      int            // due, and may be tried; those in flight included
	InFlight int            // those included whose pods may stay by now
	Refused  map[string]int // due, and their last tries were refused, by who refused them

	Next    time.Time // the first of those that are pending is due
	Oldest  time.Time // the first of those that are due was due
	Untried time.Time // the first of those was due that are due and were never tried
	Begun   time.Time // the last try began
}

// Stats counts the evictions at an instant. It looks at each of them.
func (b *Backlog) Stats(now time.Time) Stats {
	s := Stats{InFlight: len(b.inFlight), Begun: b.begun, Refused: map[string]int{}}
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
		s.Next = earliest(s.Next, e.Due)
		return
	case e.Answer.Held || e.Answer.After.After(now): // mayBeTried would copy what it does not need of each
		s.Held++
		return
	}
	s.Due++
	s.Oldest = earliest(s.Oldest, e.Due)
	if e.began.IsZero() {
		s.Untried = earliest(s.Untried, e.Due)
	}
	if e.Refuser != "" {
		s.Refused[e.Refuser]++
	}
}

// Overdue is for how long the first of the pods that are due has been due at an instant; zero if none is.
func (s *Stats) Overdue(now time.Time) time.Duration {
	if s.Oldest.IsZero() {
		return 0
	}
	return now.Sub(s.Oldest)
}

// Due returns the pods that are due at an instant, by node, whether they may be tried or not. It copies each of them;
// to ask for one node, DueOn is faster.
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
