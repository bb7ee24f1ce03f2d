// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Clock writes an instant of a history.
func Clock(at time.Duration) string { return fmt.Sprintf("%.3f s", at.Seconds()) }

// Timetable writes down a history: what was there before, and what happened when. The zero value is empty.
type Timetable struct{ text strings.Builder }

// Before writes down what was there before anything happened.
func (t *Timetable) Before(what fmt.Stringer) { t.line("before", what) }

// Starts writes down that the contestant started.
func (t *Timetable) Starts(at time.Duration) { t.line(Clock(at), "the controller starts") }

// At writes down what happened at an instant.
func (t *Timetable) At(at time.Duration, what fmt.Stringer) { t.line(Clock(at), what) }

func (t *Timetable) line(when string, what any) { fmt.Fprintf(&t.text, "%12s  %s\n", when, what) }

// String returns what was written down.
func (t *Timetable) String() string { return t.text.String() }

// Table writes rows of cells below one another.
func Table(rows ...[]string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}

// FaultOf returns the kind of the first fault with a name, if there is one.
func FaultOf(name string, faults []Fault) (Kind, bool) {
	i := slices.IndexFunc(faults, func(f Fault) bool { return f.Name == name })
	if i < 0 {
		return "", false
	}
	return faults[i].Kind, true
}
