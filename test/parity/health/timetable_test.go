// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// Timetable implements arena.Trial: it writes down a trial: what happened when, and then, for each node, how it looked over time.
func (t *trial) Timetable() string {
	var text strings.Builder
	for _, node := range t.history.Nodes {
		fmt.Fprintf(&text, "%12s  %s\n", "before", node)
	}
	for _, next := range t.history.occasions() {
		switch {
		case next.starts:
			fmt.Fprintf(&text, "%12s  the controller starts\n", clock(next.at))
		case next.step != nil:
			fmt.Fprintf(&text, "%12s  %s\n", clock(next.at), next.step.Do)
		}
	}
	explanation, faults := t.explain(), t.Faults()
	for _, name := range t.names() {
		because := "unexplained"
		if found, ok := explanation[name]; ok && found.agree {
			because = "both agree"
		} else if ok {
			because = "upstream differs: " + found.quirks.String()
		}
		if i := slices.IndexFunc(faults, func(f arena.Fault) bool { return f.Name == name }); i >= 0 {
			because = string(faults[i].Kind)
		}
		fmt.Fprintf(&text, "\nNODE %s: %s\n%s", name, because, t.columns(name))
	}
	return text.String()
}

func (t *trial) columns(name string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tOURS\tUPSTREAM\tMODEL OF UPSTREAM")
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
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}
