// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package sentence

import (
	"strconv"
	"strings"
	"unicode"
)

// Printable escapes characters that would move the cursor of a terminal, change its colors, or change the direction of
// the text around them, because clients can put anything into names and messages.
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

// moves reports whether a terminal interprets a character instead of showing it.
func moves(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
