// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Column is a column of a table with rows of one type. A column whose cells are all empty is left out.
type Column[R any] struct {
	Title string
	// Wide columns are only in the tables of -o wide.
	Wide bool
	// Shared says that a value that all rows have is printed once, above the table.
	Shared bool
	// Below says that the cells are sentences. If they do not fit, they are printed below their rows.
	Below bool
	// Counts is the noun for different values of pods that share a row. Without it, the row names the first value.
	Counts string
	Cell   func(row R) string
}

const (
	gap    = 3  // between two columns, as in kubectl's tables
	widest = 40 // of names in a table that does not fit
	least  = 16 // of names that are cut

	sentences = 24 // the least width of sentences
)

// laid is a column with its text. Its width is 0 if there is no room for it.
type laid struct {
	title string
	below bool
	cells []string
	width int
}

// Table prints a row for each record. A table that is wider than the terminal is cut and wrapped, and it names the
// columns for which there is no room. -o wide and --no-headers print all, because scripts read them.
func Table[R any](p *Printer, columns []Column[R], rows []R) {
	var all []*laid
	var shared []string
	for _, column := range columns {
		is := &laid{title: column.Title, below: column.Below}
		for _, row := range rows {
			is.cells = append(is.cells, Printable(column.Cell(row)))
		}
		switch same, alike := is.shares(); {
		case column.Wide && p.Format != Wide, alike && same == "" && len(rows) > 0:
		case alike && column.Shared && !p.detailed():
			if !strings.Contains(same, " ") { // otherwise it is a number of things
				same = strings.ToLower(column.Title) + " " + same
			}
			shared = append(shared, same)
		default:
			is.measure()
			all = append(all, is)
		}
	}
	if len(shared) > 0 {
		caption := strings.Join(shared, ", ")
		p.Line("%s:", strings.ToUpper(caption[:1])+caption[1:])
	}
	layOut(all, p.width())
	printRows(p, all, len(rows))
}

func printRows(p *Printer, all []*laid, rows int) {
	var titles, missing []string
	for _, column := range all {
		titles = append(titles, strings.ToUpper(column.title))
		if column.width == 0 && !column.below {
			missing = append(missing, column.title)
		}
	}
	if !p.NoHeaders {
		printLine(p.Env.Out, all, titles)
	}
	for row := range rows {
		printRow(p, all, row)
	}
	if len(missing) > 0 {
		p.Line("No room for %s: -o wide.", sentence.Enumerate(missing))
	}
}

// shares returns the value of all cells that are not empty, if they have the same.
func (l *laid) shares() (same string, is bool) {
	for _, cell := range l.cells {
		if same = cmp.Or(same, cell); cell != "" && cell != same {
			return "", false
		}
	}
	return same, true
}

func (l *laid) measure() {
	l.width = max(ansi.StringWidth(l.title), gap)
	for _, cell := range l.cells {
		l.width = max(l.width, ansi.StringWidth(cell))
	}
}

// cutDomain shortens the names of nodes that are in the same domain.
func (l *laid) cutDomain() {
	domain := ""
	for _, cell := range l.cells {
		_, of, has := strings.Cut(cell, ".")
		if has && (domain != "" && of != domain || strings.ContainsAny(of, "/: ")) {
			return
		}
		domain = cmp.Or(of, domain)
	}
	for i, cell := range l.cells {
		if name, cut := strings.CutSuffix(cell, "."+domain); cut && domain != "" {
			l.cells[i] = name + "…"
		}
	}
	l.measure()
}

// layOut gives the columns their widths, the first ones first. Zero is no limit.
func layOut(all []*laid, width int) {
	whole := -gap
	for _, column := range all {
		whole += column.width + gap
	}
	if width == 0 || whole <= width {
		return
	}
	for i, column := range all {
		column.cutDomain()
		natural, room := min(column.width, widest), least
		if column.below {
			natural, room = column.width, sentences
		}
		if i > 0 && natural > width && width < room {
			column.width = 0
			continue
		}
		column.width = min(natural, width)
		width -= column.width + gap
	}
}

// printRow prints as many lines as the cell that wraps most often needs, and then the sentences for which there is no
// column.
func printRow(p *Printer, all []*laid, row int) {
	cells, height := make([][]string, len(all)), 1
	for i, column := range all {
		if column.width > 0 {
			cells[i] = cellLines(column.cells[row], column.width)
			height = max(height, len(cells[i]))
		}
	}
	for n := range height {
		line := make([]string, len(all))
		for i := range cells {
			if n < len(cells[i]) {
				line[i] = cells[i][n]
			}
		}
		printLine(p.Env.Out, all, line)
	}
	for _, column := range all {
		if column.width == 0 && column.below && column.cells[row] != "" {
			p.Line("    %s: %s", column.title, column.cells[row])
		}
	}
}

func printLine(out io.Writer, all []*laid, cells []string) {
	var line strings.Builder
	for i, column := range all {
		if column.width > 0 {
			line.WriteString(cells[i] + strings.Repeat(" ", max(column.width-ansi.StringWidth(cells[i]), 0)+gap))
		}
	}
	fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
}

// cellLines wraps a cell between words. A word that is too long is cut in the middle, because names differ at their
// ends.
func cellLines(cell string, width int) []string {
	words := strings.Split(cell, " ")
	for i, word := range words {
		if over := ansi.StringWidth(word) - width; over > 0 {
			head := width / 2
			words[i] = ansi.Truncate(word, head, "") + "…" + ansi.TruncateLeft(word, over+head+1, "")
		}
	}
	return strings.Split(wrap(strings.Join(words, " "), width, "", ""), "\n")
}

// Most returns the first rows of a table, and the rest unless the table has all rows.
func Most[R any](p *Printer, most int, rows []R) (shown, rest []R) {
	if p.detailed() || len(rows) <= most {
		return rows, nil
	}
	return rows[:most], rows[most:]
}

// More says how many things a table leaves out, if any.
func (p *Printer) More(number int) {
	if number > 0 {
		p.Line("... and %d more: -o wide.", number)
	}
}

const (
	many     = 30 // rows above which pods of one workload share a row
	mostPods = 20 // rows that are printed if there are still more than many
)

// Pod is what the table of pods must know about a record.
type Pod struct {
	Namespace, Name, Node string

	Owner *cliv1alpha1.Owner
	// With is what pods must have in common to share a row, in addition to their workload.
	With string
	// Damage sorts the rows of many pods. 0 is none.
	Damage int
}

// Pods prints a table with a row for each pod or, if there are many, for the pods of a workload to which the same
// happens: first by node and then, if there are still too many rows, on all nodes. A column without cells has the names
// of the pods.
func Pods[R any](p *Printer, columns []Column[R], rows []R, of func(R) Pod) {
	all := make([]group[R], 0, len(rows))
	for _, row := range rows {
		all = append(all, group[R]{of(row), []R{row}})
	}
	if len(rows) > many && !p.detailed() {
		all = grouped(rows, of)
	}
	named := make([]Column[group[R]], 0, len(columns))
	for _, column := range columns {
		is := Column[group[R]]{Title: column.Title, Wide: column.Wide, Shared: column.Shared, Below: column.Below}
		is.Cell = func(g group[R]) string { return g.cell(column) }
		if column.Cell == nil {
			is.Cell = group[R].name
		}
		named = append(named, is)
	}
	most := mostPods
	if len(all) <= many {
		most = many
	}
	shown, rest := Most(p, most, all)
	Table(p, named, shown)
	more := 0
	for _, g := range rest {
		more += len(g.rows)
	}
	p.More(more)
}

// group is the pods that share a row.
type group[R any] struct {
	Pod

	rows []R
}

// grouped returns the groups of many pods, the worst first. Those without damage stay in their order.
func grouped[R any](rows []R, of func(R) Pod) (all []group[R]) {
	for _, apart := range []bool{true, false} {
		at := map[string]int{}
		all = nil
		for _, row := range rows {
			pod := of(row)
			key := strings.Join([]string{pod.Namespace, OwnerOf(pod.Owner), pod.With}, "\n")
			if apart {
				key += "\n" + pod.Node
			}
			i, known := at[key]
			if !known {
				i, at[key] = len(all), len(all)
				all = append(all, group[R]{Pod: pod})
			}
			all[i].rows, all[i].Damage = append(all[i].rows, row), max(all[i].Damage, pod.Damage)
		}
		if len(all) <= many {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b group[R]) int {
		if a.Damage == 0 || a.Damage != b.Damage {
			return b.Damage - a.Damage
		}
		return len(b.rows) - len(a.rows)
	})
	return all
}

func (g group[R]) name() string {
	switch {
	case len(g.rows) == 1:
		return FullName(g.Namespace, g.Name)
	case g.Owner == nil:
		return fmt.Sprintf("%d pods of namespace %s", len(g.rows), g.Namespace)
	}
	return fmt.Sprintf("%d pods of %s %s", len(g.rows), g.Owner.Kind, FullName(g.Namespace, g.Owner.Name))
}

func (g group[R]) cell(column Column[R]) string {
	first, others := "", map[string]bool{}
	for i, row := range g.rows {
		cell := column.Cell(row)
		if i == 0 {
			first = cell
		}
		others[cell] = true
	}
	switch {
	case len(others) == 1:
		return first
	case column.Counts != "":
		return sentence.Counted(len(others), column.Counts)
	}
	return fmt.Sprintf("%s and %d more", cmp.Or(first, "none"), len(others)-1)
}
