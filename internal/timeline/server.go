// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import "time"

const (
	// drift is by how much a second of this machine and a second of the API server's may differ, in parts of it: twice
	// what NTP slews a clock.
	drift = 1000
	// setBy is from when on a contradiction means that the API server's clock was set, or that another server answered.
	setBy = 2 * time.Second
	// slew is the part of a second by which a second of the monotonic clock can be too short at most, while the kernel
	// slews it: 10 % in Linux (adjtimex(2), tick and frequency).
	slew = 8
)

// server is what is known of the API server's clock. It is pure: instants are given.
type server struct {
	heard    bool
	at       time.Time // of the newest answer, by our monotonic clock
	from, to time.Time // the bounds of the server's clock then
	pace     pace
}

// pace compares how fast the monotonic clock and the API server's go.
type pace struct {
	since time.Time     // when the server's clock was last seen to be further ahead
	ahead time.Duration // of ours, at the least
	held  time.Duration // by how much ours has been too fast since
}

// bounds returns between which instants the API server's clock is at an instant of ours.
func (s *server) bounds(at time.Time) (from, to time.Time) {
	passed := at.Sub(s.at)
	slack := passed.Abs() / drift
	return s.from.Add(passed - slack), s.to.Add(passed + slack)
}

// answered notes the Date of an answer: at some instant between asked and came the API server's clock showed a time in
// that second. Answers that agree narrow the bounds. One that contradicts the others is believed alone from then on.
// It returns by how much our monotonic clock has turned out to be too fast.
func (s *server) answered(date, asked, came time.Time) (fast time.Duration) {
	from, to := date, date.Add(time.Second+came.Sub(asked))
	if !s.heard {
		*s = server{heard: true, at: came, from: from, to: to, pace: pace{since: came, ahead: from.Sub(came)}}
		return 0
	}
	earliest, latest := s.bounds(came)
	if earliest.Sub(to) >= setBy || from.Sub(latest) >= setBy {
		s.pace = pace{since: came, ahead: from.Sub(came)}
	}
	fast = s.pace.answered(from, to, came)
	if !from.After(latest) && !to.Before(earliest) {
		from, to = Later(from, earliest), Earlier(to, latest)
	}
	s.at, s.from, s.to = came, from, to
	return fast
}

// answered returns by how much ours has been too fast since the last answer. More than a slewed clock can be is none of
// it: then the API server's clock was set, or another server answered.
func (p *pace) answered(from, to, came time.Time) (fast time.Duration) {
	if ahead := from.Sub(came); ahead >= p.ahead {
		*p = pace{since: came, ahead: ahead}
	}
	fast = p.ahead - to.Sub(came)
	if fast <= 0 {
		return 0
	}
	if p.held+fast > came.Sub(p.since)/slew {
		*p = pace{since: came, ahead: from.Sub(came)}
		return 0
	}
	p.ahead -= fast
	p.held += fast
	return fast
}
