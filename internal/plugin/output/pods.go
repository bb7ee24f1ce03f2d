// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// many is the number of rows above which pods of one workload share a row.
const many = 30

// Columns that tables of pods treat specially.
const (
	ColumnLeaves = "Leaves"
	ColumnDue    = "Due" // instead of Leaves if policies may keep pods that are due
	ColumnPod    = "Pod"
	ColumnNode   = "Node"
	ColumnTaint  = "Taint"

	ColumnToleration = "Toleration"
)

// PodRow is one row of a table of pods.
type PodRow struct {
	Namespace, Name string
	Owner           *cliv1alpha1.Owner
	// With is what pods must have in common to share a row, in addition to their workload.
	With string
	// Cells has one cell for each column. The cell of ColumnPod is filled in later.
	Cells []string
}

// FullName is the name of a pod in tables, and in a form that why accepts.
func FullName(namespace, name string) string { return namespace + "/" + name }

// OwnerOf names the owner of a pod, for a cell.
func OwnerOf(owner *cliv1alpha1.Owner) string {
	if owner == nil {
		return ""
	}
	return owner.Kind + "/" + owner.Name
}

// detailed reports whether a table has a row for each pod, with full instants and all its columns. That is so with -o
// wide, and without headers, because scripts read such tables.
func (p *Printer) detailed() bool { return p.Format == Wide || p.NoHeaders }

// Pods prints a table of pods, soonest first, and repeats the answer if the table is long. If there are many rows, pods
// of one workload that leave together share a row. If Node or Taint is the same in every row, it is printed above the
// table.
func (p *Printer) Pods(answer string, columns []string, rows []PodRow) error {
	setNames(columns, rows)
	if p.detailed() {
		return p.Table(columns, cellsOf(rows))
	}
	rows = grouped(columns, rows)
	caption, columns := common(columns, rows)
	if caption != "" {
		p.Line("%s", caption)
	}
	columns = keepSeconds(columns, rows, p.width())
	if err := p.Table(columns, cellsOf(rows)); err != nil {
		return err
	}
	if len(rows) > many {
		p.Line("")
		p.Line("%s", answer)
	}
	return nil
}

// readable is the least number of characters of a key that remain when a toleration is shortened.
const readable = len("maintenance…") - len("…") + 1

// keepSeconds shortens tolerations that are too wide for the terminal, but keeps their seconds. If too little would
// remain, it drops the column. -o wide has it.
func keepSeconds(columns []string, rows []PodRow, width int) []string {
	at := slices.Index(columns, ColumnToleration)
	if at < 0 || width == 0 {
		return columns
	}
	cells := cellsOf(rows)
	for _, row := range cells {
		row[at] = ""
	}
	room := width - widthOf(columns, cells) + len(ColumnToleration)
	for i := range rows {
		cell := &rows[i].Cells[at]
		lasts := strings.LastIndex(*cell, " for") // " for 60s" or " forever"
		switch length := len(*cell) - lasts; {
		case room >= len(ColumnToleration) && (lasts < 0 || ansi.StringWidth(*cell) <= room):
		case lasts >= 0 && room-length >= readable:
			*cell = ansi.Truncate((*cell)[:lasts], room-length, "…") + (*cell)[lasts:]
		default:
			for i := range rows {
				rows[i].Cells = slices.Delete(slices.Clone(rows[i].Cells), at, at+1)
			}
			return slices.Delete(slices.Clone(columns), at, at+1)
		}
	}
	return columns
}

// PodName is a pod as -o name prints it, as an argument that kubectl accepts.
func PodName(namespace, name string) string { return fmt.Sprintf("pod/%s -n %s", name, namespace) }

func setNames(columns []string, rows []PodRow) {
	at := slices.Index(columns, ColumnPod)
	for i := range rows {
		rows[i].Cells[at] = FullName(rows[i].Namespace, rows[i].Name)
	}
}

func cellsOf(rows []PodRow) [][]any {
	all := make([][]any, 0, len(rows))
	for _, row := range rows {
		cells := make([]any, 0, len(row.Cells))
		for _, cell := range row.Cells {
			cells = append(cells, cell)
		}
		all = append(all, cells)
	}
	return all
}

// common removes the columns Node and Taint from a table if they are the same in every row, or empty. It returns their
// values as a line.
func common(columns []string, rows []PodRow) (caption string, left []string) {
	left = slices.Clone(columns)
	var said []string
	for _, column := range []string{ColumnNode, ColumnTaint} {
		at := slices.Index(left, column)
		if at < 0 || len(rows) == 0 {
			continue
		}
		same := ""
		for _, row := range rows {
			same = cmp.Or(same, row.Cells[at])
		}
		if slices.ContainsFunc(rows, func(row PodRow) bool { return row.Cells[at] != "" && row.Cells[at] != same }) {
			continue
		}
		left = slices.Delete(left, at, at+1)
		for i := range rows {
			rows[i].Cells = slices.Delete(slices.Clone(rows[i].Cells), at, at+1)
		}
		switch {
		case same == "":
		case strings.Contains(same, " "): // several nodes, counted
			said = append(said, same)
		default:
			said = append(said, strings.ToLower(column)+" "+same)
		}
	}
	if len(said) == 0 {
		return "", left
	}
	caption = strings.Join(said, ", ") + ":"
	return strings.ToUpper(caption[:1]) + caption[1:], left
}

// grouped lets pods of one workload share a row if there are many: first pods on the same node, and if that is not
// enough, pods on all nodes.
func grouped(columns []string, rows []PodRow) []PodRow {
	node := slices.Index(columns, ColumnNode)
	for _, key := range []func(PodRow) string{
		func(row PodRow) string { return row.Cells[node] },
		func(PodRow) string { return "" },
	} {
		if len(rows) <= many {
			return rows
		}
		grouped := groupedBy(columns, rows, key)
		if len(grouped) <= many || key(rows[0]) == "" {
			return grouped
		}
	}
	return rows
}

func groupedBy(columns []string, rows []PodRow, key func(PodRow) string) []PodRow {
	type group struct{ namespace, owner, with, key string }
	var order []group
	members := map[group][]PodRow{}
	for _, row := range rows {
		of := group{row.Namespace, OwnerOf(row.Owner), row.With, key(row)}
		if members[of] == nil {
			order = append(order, of)
		}
		members[of] = append(members[of], row)
	}
	all := make([]PodRow, 0, len(order))
	for _, of := range order {
		all = append(all, shared(columns, members[of]))
	}
	return all
}

// shared returns one row for several pods.
func shared(columns []string, rows []PodRow) PodRow {
	first := rows[0]
	if len(rows) == 1 {
		return first
	}
	cells := make([]string, len(columns))
	for i, column := range columns {
		var values []string
		for _, row := range rows {
			if !slices.Contains(values, row.Cells[i]) {
				values = append(values, row.Cells[i])
			}
		}
		cells[i] = several(column, values)
	}
	pods := fmt.Sprintf("%d pods", len(rows))
	if first.Owner != nil {
		pods += " of " + first.Owner.Kind + " " + FullName(first.Namespace, first.Owner.Name)
	} else {
		pods += " of namespace " + first.Namespace
	}
	cells[slices.Index(columns, ColumnPod)] = pods
	first.Cells = cells
	return first
}

// several returns one cell for the values of pods that share a row.
func several(column string, values []string) string {
	switch {
	case len(values) == 1:
		return values[0]
	case column == ColumnNode:
		return sentence.Counted(len(values), "node")
	}
	return fmt.Sprintf("%s and %d more", cmp.Or(values[0], "none"), len(values)-1)
}
