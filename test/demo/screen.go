// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// screen shows the story. Failed writes are ignored, because the exit code has the result, too.
type screen interface {
	// say prints a line of the story.
	say(format string, args ...any)
	// title prints the first line of a chapter.
	title(text string)
	// draw shows a table that is not final, and replaces the one drawn before.
	draw(lines []string)
	// finish shows the final table, and replaces the one drawn before.
	finish(lines []string)
}

// newScreen draws in place on a terminal, and prints each final table once on anything else.
func newScreen(out *os.File) screen {
	if !term.IsTerminal(int(out.Fd())) || os.Getenv("TERM") == "dumb" {
		return plainScreen{out}
	}
	size := func() (int, int, error) { return term.GetSize(int(out.Fd())) }
	return &liveScreen{plainScreen: plainScreen{out}, size: size}
}

type plainScreen struct{ out io.Writer }

func (s plainScreen) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

func (s plainScreen) title(text string) { s.say("%s", text) }

func (s plainScreen) draw([]string) {}

func (s plainScreen) finish(lines []string) { s.say("\n%s", strings.Join(lines, "\n")) }

// liveScreen is a terminal that understands the usual escape sequences.
type liveScreen struct {
	plainScreen
	size func() (width, height int, err error)

	mu    sync.Mutex
	drawn int // lines of the table above the cursor
}

const (
	escBold      = "\x1b[1m"
	escDim       = "\x1b[2m"
	escPlain     = "\x1b[0m"
	escUp        = "\x1b[%dA"
	escEraseDown = "\x1b[J"
)

// say removes the drawn table, which is drawn again below.
func (s *liveScreen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(nil)
	s.plainScreen.say(format, args...)
}

func (s *liveScreen) title(text string) { s.say("%s", escBold+text+escPlain) }

// draw shows what fits, below an empty line: a line that wraps or scrolls away could not be drawn over.
func (s *liveScreen) draw(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, height, err := s.size()
	if err != nil || width <= 0 || height <= 2 {
		width, height = 80, 24
	}
	shown := lines[:min(len(lines), height-2)]
	clipped := make([]string, len(shown))
	for i, line := range shown {
		clipped[i] = clip(line, width)
	}
	s.replace(clipped)
}

func (s *liveScreen) finish(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(lines)
	s.drawn = 0
}

// replace: the caller holds the lock.
func (s *liveScreen) replace(lines []string) {
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, escUp, s.drawn)
	}
	b.WriteString("\r" + escEraseDown)
	if len(lines) > 0 {
		b.WriteString("\n")
	}
	for i, line := range lines {
		if i == 0 {
			line = escDim + line + escPlain
		}
		b.WriteString(line + "\n")
	}
	_, _ = io.WriteString(s.out, b.String())
	s.drawn = min(len(lines), 1) + len(lines)
}

func clip(line string, width int) string {
	runes := []rune(line)
	return string(runes[:min(len(runes), width)])
}
