// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package sentence

import (
	"strconv"
	"strings"
	"unicode"
)

// Printable makes characters visible that would move the cursor of a terminal, change its colours, or turn the
// direction of the text around them: names and messages are written by others.
func Printable(text string) string {
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
