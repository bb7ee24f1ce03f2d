// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"
)

const (
	// 1/drift is the most by which a second of this machine and a second of the API server's usually differ. While the
	// kernel slews a clock it can be more: see slew.
	drift = 1000
	// 1/slew is more than the largest fraction by which a second of the monotonic clock can be too short while the
	// kernel slews it: 10 % in Linux (adjtimex(2), tick and frequency).
	slew = 8
	// setBy is the difference that cannot come from slewing: the API server's clock was set, or another server answered.
	setBy = 2 * time.Second
)

// otherFor is how long what was known before a contradiction still counts in what is written, because there can be
// several API servers behind one address.
const otherFor = time.Minute

// server is what is known about the API server's clock. It is pure: it is given instants of our monotonic clock.
type server struct {
	known reckoning
	other reckoning // what was known before the last contradiction
}

// reckoning is what answers that agree say about the server's clock.
type reckoning struct {
	at       time.Time // when the newest answer came, or zero before the first
	from, to time.Time // the bounds of the server's clock then
}

// bounds returns the earliest and latest time of the API server's clock at an instant of ours.
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
	return instant.Earlier(from, otherFrom), instant.Later(to, otherTo)
}

// answered notes the Date of an answer: at some instant between asked and came, the API server's clock showed a time in
// that second. Answers that agree narrow the bounds. After an answer that contradicts the others, only that answer
// counts.
func (s *server) answered(date, asked, came time.Time) {
	next := reckoning{at: came, from: date, to: date.Add(time.Second + came.Sub(asked))}
	if s.heard() {
		earliest, latest := s.known.bounds(came)
		if !next.from.After(latest) && !next.to.Before(earliest) {
			next.from, next.to = instant.Later(next.from, earliest), instant.Earlier(next.to, latest)
		} else {
			s.other = reckoning{at: came, from: earliest, to: latest}
		}
	}
	s.known = next
}

// pace compares the speeds of the monotonic clock and the API server's, using the answers on one connection.
type pace struct {
	found time.Duration // how much ours has been too fast in total, see Clock.heard

	since time.Time     // when the server's clock was last seen further ahead, or zero if no answer has come yet
	ahead time.Duration // of our clock, at the least
	held  time.Duration // by how much ours has been too fast since
	last  time.Time     // when ahead was found
	mixed time.Time     // until then, several servers may be answering
}

// mixedFor is for how long a clock that went back and forward again counts as several clocks.
const mixedFor = 10 * time.Minute

// answered returns how much ours has been too fast since the last answer. A difference that slewing cannot explain does
// not count, because then the API server's clock was set, or another server answered. Nor does one that comes and goes.
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
