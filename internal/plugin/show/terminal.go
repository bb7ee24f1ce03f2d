// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// hanging is the beginning of a line that continues the previous one.
const hanging = "  "

// Wrap breaks a line between words to fit a width. Zero breaks nothing. An indented kubectl command is not broken, so
// that it can be copied.
func Wrap(text string, width int) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if indent != "" && strings.HasPrefix(text[len(indent):], "kubectl ") {
		return text
	}
	return wrap(text[len(indent):], width, indent, indent+hanging)
}

// wrap breaks a text between words into a first line and more lines, each with its own indent.
func wrap(text string, width int, first, others string) string {
	if width == 0 || ansi.StringWidth(first+text) <= width {
		return first + text
	}
	var lines []string
	line, empty := first, true
	for word := range strings.SplitSeq(text, " ") {
		if !empty && ansi.StringWidth(line+" "+word) > width {
			lines = append(lines, line)
			line, empty = others, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return strings.Join(append(lines, line), "\n")
}

// Reflow wraps the paragraphs and lists of a text again to fit a width, and the last column of rows. Other indented
// lines keep their line breaks. Zero changes nothing.
func Reflow(text string, width int) string {
	if width == 0 {
		return text
	}
	const item = "- "
	var blocks []string
	open := false // whether the next line may continue the last block
	for line := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		isProse := trimmed == line && line != ""
		goesOn := open && trimmed != "" && !strings.HasPrefix(trimmed, item) &&
			(isProse || strings.HasPrefix(blocks[len(blocks)-1], item))
		if goesOn {
			blocks[len(blocks)-1] += " " + trimmed
			continue
		}
		blocks = append(blocks, line)
		open = isProse
	}
	for i, block := range blocks {
		switch {
		case strings.HasPrefix(block, item):
			blocks[i] = wrap(block, width, "", hanging)
		case !strings.HasPrefix(block, " "):
			blocks[i] = wrap(block, width, "", "")
		default:
			at := len(block) - len(lastColumn(block))
			blocks[i] = wrap(block[at:], width, block[:at], strings.Repeat(" ", at))
		}
	}
	return strings.Join(blocks, "\n")
}

// lastColumn returns the text after the last gap in an indented line. It is empty if there is no gap after the indent.
func lastColumn(line string) string {
	const gap = "  "
	row := strings.TrimLeft(line, " ")
	if at := strings.LastIndex(row, gap); at >= 0 {
		return row[at+len(gap):]
	}
	return ""
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := FileOf(stream)
	return ok && term.IsTerminal(int(file.Fd()))
}

// FileOf returns the file behind a stream, if there is one.
func FileOf(stream any) (*os.File, bool) {
	if written, ok := stream.(*Written); ok {
		stream = written.Writer
	}
	file, ok := stream.(*os.File)
	return file, ok
}

// Narrow is a stream with the width of a terminal.
type Narrow struct {
	io.Writer

	Width int
}

// WidthOf returns the width of a terminal, or 0 for anything else.
func WidthOf(out io.Writer) int {
	if written, ok := out.(*Written); ok {
		out = written.Writer
	}
	if narrow, ok := out.(Narrow); ok {
		return narrow.Width
	}
	file, ok := FileOf(out)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Written is the stdout of a command. It keeps the first error, so that a lost line does not count as printed: a full
// disk must end in an error, whichever code printed.
type Written struct {
	io.Writer

	Err error
}

// Write implements io.Writer.
func (w *Written) Write(data []byte) (int, error) {
	n, err := w.Writer.Write(data)
	if err != nil && w.Err == nil {
		w.Err = err
	}
	return n, err
}

// Printable makes characters visible that a terminal would interpret, because others choose names and messages.
func Printable(text string) string { return sentence.Printable(text) }

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
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now("Waiting for the API server %s to list %s", server, kind)
	})
	return func() { timer.Stop() }
}

// now prints the progress, unless it was printed very recently. Its callers hold the lock.
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
