// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// Timetable implements arena.Trial: it writes down a trial: what happened when, and then, for each node, how it looked
// over time.
func (t *trial) Timetable() string {
	var history arena.Timetable
	for _, node := range t.history.Nodes {
		history.Before(node)
	}
	for _, next := range t.history.occasions() {
		switch {
		case next.starts:
			history.Starts(next.at)
		case next.step != nil:
			history.At(next.at, next.step.Do)
		}
	}
	var text strings.Builder
	explanation, faults := t.explain(), t.Faults()
	for _, name := range t.names() {
		because := "unexplained"
		if found, ok := explanation[name]; ok && found.agree {
			because = "both agree"
		} else if ok {
			because = "upstream differs: " + found.quirks.String()
		}
		if fault, ok := arena.FaultOf(name, faults); ok {
			because = string(fault)
		}
		fmt.Fprintf(&text, "\nNODE %s: %s\n%s", name, because, t.columns(name))
	}
	return history.String() + text.String()
}

func (t *trial) columns(name string) string {
	rows := [][]string{{"RULE", "OURS", "UPSTREAM", "MODEL OF UPSTREAM"}}
	columns := [][]look{t.rule[name], t.ours[name], t.upstream[name], t.model[name]}
	for row := range slices.Max([]int{len(columns[0]), len(columns[1]), len(columns[2]), len(columns[3])}) {
		var cells []string
		for _, column := range columns {
			cell := ""
			if row < len(column) {
				cell = column[row].String()
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	return arena.Table(rows...)
}
