// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Release is what happens to held pods when pauses and open breakers let them go.
type Release struct {
	// Leave is how many then leave, although some only at a pace. Asked is about how many of these the Eviction API is
	// asked first.
	Leave, Asked int
	// Late is how many a deadline deletes without asking, if they are still there, from First to Last after the release.
	Late        int
	First, Last time.Duration
}

// Add adds the course of a pod from the release on.
func (r *Release) Add(course Course, at time.Time) {
	if !course.Held() {
		r.Leave++
		if course.Asks {
			r.Asked++
		}
	}
	if course.Deletes.IsZero() {
		return
	}
	after := course.Deletes.Sub(at)
	if r.Late++; r.Late == 1 || after < r.First {
		r.First = after
	}
	r.Last = max(r.Last, after)
}

// Deadlines says about how many pods the Eviction API is asked first, and how many of them are deleted anyway, and
// when. It is empty if no policy with a deadline or the action Evict selects one of the pods.
func (r *Release) Deadlines() (text string) {
	switch r.Asked {
	case 0:
	case r.Leave:
		text = " The Eviction API is asked first."
	default:
		text = fmt.Sprintf(" The Eviction API is asked about %d of them first.", r.Asked)
	}
	if r.Late > 0 {
		later := sentence.Span(r.First)
		if last := sentence.Span(r.Last); last != later {
			later += " to " + last
		}
		text += fmt.Sprintf(" %d %s deleted without asking if still there %s later.",
			r.Late, sentence.Agree(r.Late, "is", "are"), later)
	}
	return text
}

// Held reports whether policies keep a pod at first. A pace only delays it, as does the settling of a breaker.
func (c Course) Held() bool {
	return c.First.Stays() && c.First.Why != policy.Paced && c.First.Why != policy.Settling
}

// Halted reports whether it is a pause or an open breaker that keeps a pod at first.
func (c Course) Halted() bool {
	return c.First.Why == policy.Paused || c.First.Why == policy.BreakerOpen
}

// Resumed returns the set without its pauses and breakers.
func (s *Set) Resumed() *Set {
	resumed := *s
	resumed.All, resumed.open = nil, map[string]string{}
	for _, p := range s.All {
		if !s.made[p.Name] {
			resumed.All = append(resumed.All, p.Resumed())
		}
	}
	return &resumed
}

// AfterHalts returns the course of a pod if all pauses and open breakers that keep it at an instant ended then. The set
// is the one before that.
func (s *Set) AfterHalts(resumed *Set, c Candidate, at time.Time) Course {
	return resumed.Course(resumed.Selecting(c.Pod, c.Node), c.Pod, c.Node, s.Released(c.By, c.Causes, at, at), at)
}
