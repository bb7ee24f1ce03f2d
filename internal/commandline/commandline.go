// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commandline reads flags from the command lines of pods, as the API server stores them. It is pure.
package commandline

import (
	"strings"
)

// ValueOf returns the value of a flag, or the given default. If the flag is set several times, the last one counts.
func ValueOf(flag string, words []string, other string) string {
	for i, word := range words {
		name, value, inOne := strings.Cut(word, "=")
		if name == flag && !inOne && i+1 < len(words) {
			value = words[i+1]
		}
		if name == flag && value != "" {
			other = value
		}
	}
	return other
}
