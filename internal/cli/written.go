// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strconv"
	"strings"
	"unicode"
)

// written is where a command prints. It keeps the first error, so that a line that is lost does not pass for printed: a full
// disk has to end in an error, whoever printed.
type written struct {
	io.Writer

	err error
}

// Write implements io.Writer.
func (w *written) Write(data []byte) (int, error) {
	n, err := w.Writer.Write(data)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

// printable makes characters visible that would move the cursor of a terminal, change its colours, or turn the direction of
// the text around them: names and messages are written by others.
func printable(text string) string {
	if !strings.ContainsFunc(text, moves) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if moves(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// moves reports whether a terminal obeys a character instead of showing it.
func moves(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
