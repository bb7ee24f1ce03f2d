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

// hanging is what a line begins with that goes on with the one above.
const hanging = "  "

// Wrap breaks a line between words, so that it fits a width. Zero breaks nothing, and an indented command of kubectl
// stays whole, as it is there to be copied.
func Wrap(text string, width int) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if indent != "" && strings.HasPrefix(text[len(indent):], "kubectl ") {
		return text
	}
	return wrap(text[len(indent):], width, indent, indent+hanging)
}

// wrap breaks a text between words into a first line and others, each with an indent.
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

// Reflow breaks the paragraphs and lists of a text again, so that they fit a width, and the last column of rows. Other
// indented lines keep their breaks. Zero changes nothing.
func Reflow(text string, width int) string {
	if width == 0 {
		return text
	}
	const item = "- "
	var blocks []string
	open := false // whether the next line may go on with the last block
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

// lastColumn returns what follows the last gap in an indented line, nothing if there is none behind the indent.
func lastColumn(line string) string {
	const gap = "  "
	row := strings.TrimLeft(line, " ")
	if at := strings.LastIndex(row, gap); at >= 0 {
		return row[at+len(gap):]
	}
	return ""
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

// WidthOf returns the width of a terminal, 0 for anything else.
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
