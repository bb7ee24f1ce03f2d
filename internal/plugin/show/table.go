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

// table is the text of a table, by column.
type table struct {
	titles []string
	below  []bool
	cells  [][]string
	widths []int // 0 if the column does not fit
}

// Table prints a row for each record. A table that is wider than the terminal is cut and wrapped, and it names the
// columns for which there is no room. -o wide and --no-headers print all, because scripts read them.
func Table[R any](p *Printer, columns []Column[R], rows []R) {
	t, shared := &table{}, []string{}
	for _, column := range columns {
		cells := make([]string, 0, len(rows))
		for _, row := range rows {
			cells = append(cells, Printable(column.Cell(row)))
		}
		same, is := sharedBy(cells)
		switch {
		case column.Wide && p.Format != Wide, is && same == "" && len(rows) > 0:
		case is && column.Shared && !p.detailed():
			if !strings.Contains(same, " ") { // otherwise it is a number of things
				same = strings.ToLower(column.Title) + " " + same
			}
			shared = append(shared, same)
		default:
			t.add(column.Title, column.Below, cells)
		}
	}
	if len(shared) > 0 {
		caption := strings.Join(shared, ", ")
		p.Line("%s:", strings.ToUpper(caption[:1])+caption[1:])
	}
	t.layout(p.width())
	t.print(p, len(rows))
}

// sharedBy returns the value of all cells that are not empty, if they have the same.
func sharedBy(cells []string) (same string, is bool) {
	for _, cell := range cells {
		if same = cmp.Or(same, cell); cell != "" && cell != same {
			return "", false
		}
	}
	return same, true
}

func (t *table) add(title string, below bool, cells []string) {
	t.titles, t.below, t.cells = append(t.titles, title), append(t.below, below), append(t.cells, cells)
	t.widths = append(t.widths, 0)
	t.measure(len(t.widths) - 1)
}

func (t *table) measure(column int) {
	width := max(ansi.StringWidth(t.titles[column]), gap)
	for _, cell := range t.cells[column] {
		width = max(width, ansi.StringWidth(cell))
	}
	t.widths[column] = width
}

// cutDomain shortens the names of nodes that are in the same domain.
func (t *table) cutDomain(column int) {
	domain := ""
	for _, cell := range t.cells[column] {
		_, of, has := strings.Cut(cell, ".")
		if has && (domain != "" && of != domain || strings.ContainsAny(of, "/: ")) {
			return
		}
		domain = cmp.Or(of, domain)
	}
	for i, cell := range t.cells[column] {
		if name, cut := strings.CutSuffix(cell, "."+domain); cut && domain != "" {
			t.cells[column][i] = name + "…"
		}
	}
	t.measure(column)
}

// layout gives the columns their widths, the first ones first. Zero is no limit.
func (t *table) layout(width int) {
	whole := -gap
	for _, width := range t.widths {
		whole += width + gap
	}
	if width == 0 || whole <= width {
		return
	}
	for i := range t.widths {
		t.cutDomain(i)
		natural := t.widths[i]
		if !t.below[i] {
			natural = min(natural, widest)
		}
		if room := map[bool]int{false: least, true: sentences}[t.below[i]]; i > 0 && natural > width && width < room {
			t.widths[i] = 0
			continue
		}
		t.widths[i] = min(natural, width)
		width -= t.widths[i] + gap
	}
}

func (t *table) print(p *Printer, rows int) {
	if !p.NoHeaders {
		titles := make([]string, 0, len(t.titles))
		for _, title := range t.titles {
			titles = append(titles, strings.ToUpper(title))
		}
		t.printLine(p.Env.Out, titles)
	}
	for row := range rows {
		t.printRow(p, row)
	}
	var missing []string
	for i, width := range t.widths {
		if width == 0 && !t.below[i] {
			missing = append(missing, t.titles[i])
		}
	}
	if len(missing) > 0 {
		p.Line("No room for %s: -o wide.", sentence.Enumerate(missing))
	}
}

// printRow prints as many lines as the cell that wraps most often needs, and then the sentences for which there is no
// column.
func (t *table) printRow(p *Printer, row int) {
	lines := make([][]string, len(t.titles))
	height := 1
	for i, width := range t.widths {
		if width > 0 {
			lines[i] = cellLines(t.cells[i][row], width)
			height = max(height, len(lines[i]))
		}
	}
	for n := range height {
		line := make([]string, len(lines))
		for i := range lines {
			if n < len(lines[i]) {
				line[i] = lines[i][n]
			}
		}
		t.printLine(p.Env.Out, line)
	}
	for i, width := range t.widths {
		if width == 0 && t.below[i] && t.cells[i][row] != "" {
			p.Line("    %s: %s", t.titles[i], t.cells[i][row])
		}
	}
}

func (t *table) printLine(out io.Writer, cells []string) {
	var line strings.Builder
	for i, width := range t.widths {
		if width > 0 {
			line.WriteString(cells[i] + strings.Repeat(" ", max(width-ansi.StringWidth(cells[i]), 0)+gap))
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
	shown, rest := all, []group[R](nil)
	if len(all) > many {
		shown, rest = Most(p, mostPods, all)
	}
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
