// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// fitting cuts lines to the width of a terminal, so that a table stays one. Zero cuts nothing.
type fitting struct {
	out   io.Writer
	width int
}

// Write implements io.Writer. Printers write whole lines, and many at once.
func (f *fitting) Write(data []byte) (int, error) {
	if f.width == 0 {
		return f.out.Write(data)
	}
	for line := range strings.Lines(string(data)) {
		text, end, _ := strings.Cut(line, "\n")
		if _, err := fmt.Fprint(f.out, ansi.Truncate(text, f.width, "…")); err != nil {
			return 0, err
		}
		if strings.HasSuffix(line, "\n") {
			end = "\n"
		}
		if _, err := fmt.Fprint(f.out, end); err != nil {
			return 0, err
		}
	}
	return len(data), nil
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

// widthOf returns the width of a terminal, 0 for anything else.
func widthOf(out io.Writer) int {
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
