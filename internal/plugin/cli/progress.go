// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"sync"
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
	began time.Time

	mu      sync.Mutex
	said    time.Time
	kind    string
	objects int
}

func newProgress(env Env) *progress {
	return &progress{out: env.ErrOut, clock: env.Clock, moves: isTerminal(env.ErrOut), began: env.Clock.Now()}
}

// count notes one more object of a kind.
func (p *progress) count(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kind != kind {
		p.kind, p.objects = kind, 0
	}
	p.objects++
	if p.clock.Since(p.began) >= progressAfter {
		p.now("Reading %s: %d", p.kind, p.objects)
	}
}

// waitFor says that a server is waited for if it has not answered within a second. The caller stops the wait once it
// has.
func (p *progress) waitFor(server, kind string) (stop func()) {
	timer := time.AfterFunc(progressAfter, func() {
		p.update("Waiting for the API server %s to list %s", server, kind)
	})
	return func() { timer.Stop() }
}

// update says how far something is, unless it has just said something else.
func (p *progress) update(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now(format, args...)
}

// now is update for a caller that holds the lock.
func (p *progress) now(format string, args ...any) {
	if now := p.clock.Now(); now.Sub(p.said) >= p.every() {
		p.said = p.clock.Now()
		p.say(format, args...)
	}
}

// every is how often it says something: a file that stderr goes to should not be filled.
func (p *progress) every() time.Duration {
	if p.moves {
		return progressEvery
	}
	return 10 * time.Second
}

// announce says something at once, whenever it has last said something.
func (p *progress) announce(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = p.clock.Now()
	p.say(format, args...)
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moves && !p.said.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
