// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package show

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

// Progress says on one line of a terminal what is being read, if that takes longer than a second.
type Progress struct {
	// Moves says that stderr is a terminal, where a line can be replaced.
	Moves bool

	out   io.Writer
	clock clock.PassiveClock
	began time.Time

	mu      sync.Mutex
	said    time.Time
	kind    string
	objects int
}

// NewProgress returns the progress of work that begins now.
func NewProgress(env command.Env) *Progress {
	return &Progress{out: env.ErrOut, clock: env.Clock, Moves: IsTerminal(env.ErrOut), began: env.Clock.Now()}
}

// NoProgress prints nothing.
func NoProgress() *Progress {
	return NewProgress(command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}})
}

// Count counts one more object of a kind.
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

// WaitFor says that it is waiting for a server that has not answered within a second. The caller stops the wait when
// the server answers.
func (p *Progress) WaitFor(server, kind string) (stop func()) {
	timer := time.AfterFunc(progressAfter, func() {
		p.Update("Waiting for the API server %s to list %s", server, kind)
	})
	return func() { timer.Stop() }
}

// Update prints the progress, unless it was printed very recently.
func (p *Progress) Update(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now(format, args...)
}

// now is Update for a caller that holds the lock.
func (p *Progress) now(format string, args ...any) {
	if now := p.clock.Now(); p.Moves && now.Sub(p.said) >= progressEvery {
		p.said = now
		p.say(format, args...)
	}
}

// Announce prints a text immediately, also if stderr is not a terminal.
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

// End removes the line.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Moves && !p.said.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
