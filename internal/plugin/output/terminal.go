// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// fit cuts lines to a width, so that a table stays one. Zero cuts nothing.
func fit(text string, width int) string {
	if width == 0 {
		return text
	}
	const cut = "…"
	var fitted strings.Builder
	for line := range strings.Lines(text) {
		line = ansi.Truncate(strings.TrimRight(line, " \n"), width, cut)
		if kept, ok := strings.CutSuffix(line, "  "+cut); ok {
			line = strings.TrimRight(kept, " ") // of the next column nothing is left
		}
		fitted.WriteString(line + "\n")
	}
	return fitted.String()
}

// IsTerminal reports whether somebody reads along.
func IsTerminal(stream any) bool {
	file, ok := FileOf(stream)
	return ok && term.IsTerminal(int(file.Fd()))
}

// FileOf returns the file that a stream is, if it is one.
func FileOf(stream any) (*os.File, bool) {
	if written, ok := stream.(*Written); ok {
		stream = written.Writer
	}
	file, ok := stream.(*os.File)
	return file, ok
}

// Narrow is a stream that is as wide as a terminal.
type Narrow struct {
	io.Writer

	Width int
}

// widthOf returns the width of a terminal, 0 for anything else.
func widthOf(out io.Writer) int {
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

// Written is where a command prints. It keeps the first error, so that a line that is lost does not pass for printed: a
// full disk must end in an error, whichever code printed.
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

// Printable makes characters visible that a terminal would obey: names and messages are written by others.
func Printable(text string) string { return sentence.Printable(text) }
