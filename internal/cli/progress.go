// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"time"

	"k8s.io/utils/clock"
)

// Progress says on stderr what is being read, once that takes longer than a second. On a terminal it stays one line.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

type progress struct {
	out   io.Writer
	clock clock.PassiveClock
	moves bool // out is a terminal

	began, said time.Time
	kind        string
	objects     int
}

func newProgress(env Env) *progress {
	return &progress{out: env.ErrOut, clock: env.Clock, moves: isTerminal(env.ErrOut), began: env.Clock.Now()}
}

// count notes one more object of a kind.
func (p *progress) count(kind string) {
	if p.kind != kind {
		p.kind, p.objects = kind, 0
	}
	p.objects++
	now := p.clock.Now()
	if now.Sub(p.began) < progressAfter || now.Sub(p.said) < p.every() {
		return
	}
	p.said = now
	p.say("Reading %s: %d", p.kind, p.objects)
}

// every is how often it says something: a file that stderr goes to should not be filled.
func (p *progress) every() time.Duration {
	if p.moves {
		return progressEvery
	}
	return 10 * time.Second
}

func (p *progress) say(format string, args ...any) {
	line := printable(fmt.Sprintf(format, args...))
	if p.moves {
		fmt.Fprint(p.out, "\r\x1b[K"+line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// end takes the line away.
func (p *progress) end() {
	if p.moves && !p.said.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
