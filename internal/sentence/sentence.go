// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sentence holds what the sentences of commands, checks and pages have in common.
package sentence

import (
	"fmt"
	"strings"
	"time"
)

// Counted says how many of something there are: 1 pod, 2 pods.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Agree returns the word that goes with a number: leaves with 1, leave with any other.
func Agree(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Are begins a sentence about some: 1 pod is, 2 pods are.
func Are(n int, what string) string {
	return Counted(n, what) + " " + Agree(n, "is", "are")
}

// Duration writes a duration without zeros at its end, such as 1m instead of 1m0s.
func Duration(d time.Duration) string {
	text := d.String()
	for _, zero := range []struct{ end, short string }{{"m0s", "m"}, {"h0m", "h"}} {
		if short, ok := strings.CutSuffix(text, zero.end); ok {
			text = short + zero.short
		}
	}
	return text
}

// Span writes a duration in whole seconds if it has any.
func Span(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	return Duration(d)
}

// Enumerate names ten, and counts the rest.
func Enumerate(names []string) string { return first(names, 10) }

// Some names three, and counts the rest.
func Some(names []string) string { return first(names, 3) }

func first(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
