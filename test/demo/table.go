// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taintkeeper/taintkeeper/verdict"
)

var tableHeader = []string{"POD", "NODE", "TAINT", "TOLERATION", "DUE", "LEFT AT", "LATENESS"}

// wording is how a table speaks of pods that are still there.
type wording struct {
	stays string
	waits func(left time.Duration) string
}

// The two tables of an act: while it is played, and when it is over.
var (
	duringAct = wording{stays: "stays", waits: func(left time.Duration) string {
		if left <= 0 {
			return "now"
		}
		return fmt.Sprintf("in %.1f s", left.Seconds())
	}}
	afterAct = wording{stays: "stayed", waits: func(time.Duration) string { return "not due yet" }}
)

// tableOf writes a header and a line per row, as of an instant. Times are relative to the first taint of the act.
func tableOf(rows []row, t timeline, now time.Time, words wording) []string {
	return tableSince(rows, t[0].from, now, words)
}

// tableSince is tableOf with times that are relative to another instant.
func tableSince(rows []row, start, now time.Time, words wording) []string {
	cells := [][]string{tableHeader}
	for _, r := range rows {
		cells = append(cells, r.cells(start, now, words))
	}
	return align(cells)
}

func (r row) cells(start, now time.Time, words wording) []string {
	return []string{
		r.pod.Name, r.pod.Spec.NodeName, taintCell(r.why), tolerationCell(r.why),
		r.dueCell(start), r.leftCell(start, now, words), r.latenessCell(now),
	}
}

func taintCell(why verdict.Reason) string {
	if why.Taint.Value == "" {
		return why.Taint.Key
	}
	return why.Taint.Key + "=" + why.Taint.Value
}

func tolerationCell(why verdict.Reason) string {
	if why.Toleration == nil {
		return "none"
	}
	text := "for ever"
	if why.Toleration.TolerationSeconds != nil {
		text = fmt.Sprintf("%d s", *why.Toleration.TolerationSeconds)
	}
	if len(why.Shadowed) > 0 {
		text += fmt.Sprintf(" (first of %d)", 1+len(why.Shadowed))
	}
	return text
}

func (r row) dueCell(start time.Time) string {
	switch {
	case r.cancelled():
		return "was " + seconds(r.replaced.Due.Sub(start))
	case r.Stays():
		return "never"
	case r.moved():
		return seconds(r.Due.Sub(start)) + ", was " + seconds(r.replaced.Due.Sub(start))
	}
	return seconds(r.Due.Sub(start))
}

func (r row) leftCell(start, now time.Time, words wording) string {
	switch {
	case !r.left.IsZero():
		return seconds(r.left.Sub(start))
	case r.Stays():
		return words.stays
	case r.outcome(now) == leftOver:
		return "still there"
	}
	return words.waits(r.Due.Sub(now))
}

func (r row) latenessCell(now time.Time) string {
	late := milliseconds(lateness(r.promise, r.sighting))
	switch r.outcome(now) {
	case evicted:
		return late
	case tooLate:
		return late + " !"
	case tooEarly:
		return "too early !"
	case leftOver:
		return "overdue !"
	case broken:
		return "must stay !"
	case unmarked:
		return "not by us !"
	}
	return "-"
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.3f s", d.Seconds())
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

const (
	indent       = "  "
	columnMargin = "  "
	lineWidth    = 100
)

// fill puts sentences on lines of about a width; it does not break a sentence.
func fill(sentences []string, width int) []string {
	lines := []string{sentences[0]}
	for _, sentence := range sentences[1:] {
		last := len(lines) - 1
		if utf8.RuneCountInString(lines[last]+" "+sentence) > width {
			lines = append(lines, sentence)
			continue
		}
		lines[last] += " " + sentence
	}
	return lines
}

// align pads the cells of each column to the same width, and indents every line.
func align(cells [][]string) []string {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(cells))
	for i, line := range cells {
		padded := make([]string, len(line))
		for j, cell := range line {
			padded[j] = cell + strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
		}
		lines[i] = strings.TrimRight(indent+strings.Join(padded, columnMargin), " ")
	}
	return lines
}
