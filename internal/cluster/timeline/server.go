// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import "time"

const (
	// drift is by how much a second of this machine and a second of the API server's usually differ at most, in parts of
	// it. While the kernel slews a clock it can be more: see slew.
	drift = 1000
	// slew is the part of a second by which a second of the monotonic clock can be too short at most, while the kernel
	// slews it: 10 % in Linux (adjtimex(2), tick and frequency).
	slew = 8
	// setBy is from when on a difference is no slewing: the API server's clock was set, or another server answered.
	setBy = 2 * time.Second
)

// otherFor is for how long what was known before a contradiction counts in what is written: behind one address there
// can be several API servers.
const otherFor = time.Minute

// server is what is known of the API server's clock. It is pure: instants are given, of our monotonic clock.
type server struct {
	known reckoning
	other reckoning // what was known before the last contradiction
}

// reckoning is what answers that agree tell.
type reckoning struct {
	at       time.Time // of the newest answer, or zero before the first
	from, to time.Time // the bounds of the server's clock then
}

// bounds returns between which instants the API server's clock is at an instant of ours.
func (r reckoning) bounds(at time.Time) (from, to time.Time) {
	passed := at.Sub(r.at)
	slack := passed.Abs() / drift
	return r.from.Add(passed - slack), r.to.Add(passed + slack)
}

// heard reports whether anything is known.
func (s *server) heard() bool { return !s.known.at.IsZero() }

// widest returns the bounds of the server that answered last and, for a while, of the one that it contradicted.
func (s *server) widest(at time.Time) (from, to time.Time) {
	from, to = s.known.bounds(at)
	if s.other.at.IsZero() || at.Sub(s.other.at) > otherFor {
		return from, to
	}
	otherFrom, otherTo := s.other.bounds(at)
	return Earlier(from, otherFrom), Later(to, otherTo)
}

// answered notes the Date of an answer: at some instant between asked and came the API server's clock showed a time in
// that second. Answers that agree narrow the bounds. One that contradicts the others is believed alone from then on.
func (s *server) answered(date, asked, came time.Time) {
	next := reckoning{at: came, from: date, to: date.Add(time.Second + came.Sub(asked))}
	if s.heard() {
		earliest, latest := s.known.bounds(came)
		if !next.from.After(latest) && !next.to.Before(earliest) {
			next.from, next.to = Later(next.from, earliest), Earlier(next.to, latest)
		} else {
			s.other = reckoning{at: came, from: earliest, to: latest}
		}
	}
	s.known = next
}

// pace compares how fast the monotonic clock and that of the API server go, by the answers of one connection.
type pace struct {
	found time.Duration // by how much ours has been too fast in all, see Clock.heard

	since time.Time     // when the server's clock was last seen further ahead, or zero if it was never heard
	ahead time.Duration // of ours, at the least
	held  time.Duration // by how much ours has been too fast since
	last  time.Time     // when ahead was found
	mixed time.Time     // until then several servers are taken to answer
}

// mixedFor is for how long a clock that went back and forward again counts as several clocks.
const mixedFor = 10 * time.Minute

// answered returns by how much ours has been too fast since the last answer. More than a slewed clock can be is none of
// it: then the API server's clock was set, or another server answered. So is what comes and goes.
func (p *pace) answered(date, asked, came time.Time) (fast time.Duration) {
	least, most := date.Sub(came), date.Add(time.Second).Sub(asked)
	if p.since.IsZero() || least >= p.ahead {
		back := p.held > 0 || came.Before(p.mixed)
		if back && least-p.ahead > came.Sub(p.last)/drift {
			p.mixed = came.Add(mixedFor)
		}
		p.begin(least, came)
		return 0
	}
	fast = p.ahead - most
	switch {
	case fast <= 0:
		return 0
	case came.Before(p.mixed), fast >= setBy, p.held+fast > came.Sub(p.since)/slew:
		p.begin(least, came)
		return 0
	}
	p.ahead -= fast
	p.held += fast
	p.last = came
	return fast
}

func (p *pace) begin(ahead time.Duration, came time.Time) {
	p.since, p.last, p.ahead, p.held = came, came, ahead, 0
}
