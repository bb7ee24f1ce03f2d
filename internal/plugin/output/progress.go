// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
)

// When progress is first shown, and how often it changes on a terminal.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// Progress says on stderr what is being read, once that takes longer than a second. On a terminal it stays one line.
type Progress struct {
	// Moves says that stderr is a terminal, on which a line can be replaced.
	Moves bool

	out   io.Writer
	clock clock.PassiveClock
	began time.Time

	mu      sync.Mutex
	said    time.Time
	kind    string
	objects int
}

// NewProgress returns the progress of something that begins now.
func NewProgress(env command.Env) *Progress {
	return &Progress{out: env.ErrOut, clock: env.Clock, Moves: IsTerminal(env.ErrOut), began: env.Clock.Now()}
}

// NoProgress says nothing.
func NoProgress() *Progress {
	return NewProgress(command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}})
}

// Count notes one more object of a kind.
func (p *Progress) Count(kind string) {
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

// WaitFor says that a server is waited for if it has not answered within a second. The caller stops the wait once it
// has.
func (p *Progress) WaitFor(server, kind string) (stop func()) {
	timer := time.AfterFunc(progressAfter, func() {
		p.Update("Waiting for the API server %s to list %s", server, kind)
	})
	return func() { timer.Stop() }
}

// Update says how far something is, unless it has just said something else.
func (p *Progress) Update(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now(format, args...)
}

// now is Update for a caller that holds the lock.
func (p *Progress) now(format string, args ...any) {
	if now := p.clock.Now(); now.Sub(p.said) >= p.every() {
		p.said = now
		p.say(format, args...)
	}
}

// every is how often it says something: a file that stderr goes to should not be filled.
func (p *Progress) every() time.Duration {
	if p.Moves {
		return progressEvery
	}
	return 10 * time.Second
}

// Announce says something at once, even if it has just said something else.
func (p *Progress) Announce(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = p.clock.Now()
	p.say(format, args...)
}

func (p *Progress) say(format string, args ...any) {
	line := Printable(fmt.Sprintf(format, args...))
	if p.Moves {
		fmt.Fprint(p.out, "\r\x1b[K"+line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// End takes the line away.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Moves && !p.said.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
