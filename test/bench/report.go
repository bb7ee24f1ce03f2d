// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what is printed, and written as JSON.
type report struct {
	Time    time.Time `json:"time"`
	Machine string    `json:"machine"`
	CPUs    int       `json:"cpus"`
	Tables  []*table  `json:"tables"`
	Goals   []goal    `json:"targets"`
}

// figure is something that was measured. Its name ends with its unit.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// figures are what was measured in one round of one contestant.
type figures []figure

func (f figures) String() string {
	var all []string
	for _, figure := range f {
		all = append(all, figure.Name+": "+number(figure.Value))
	}
	return strings.Join(all, "; ")
}

// table has a column for each contestant, and a row for each figure, in the order of their arrival. The n-th rounds of
// all contestants follow each other.
type table struct {
	Name    string               `json:"name"`
	Columns []string             `json:"columns"`
	Rounds  map[string][]figures `json:"rounds"`
}

func newReport() report {
	return report{
		Time: time.Now().UTC().Truncate(time.Second), Machine: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
}

// table returns the table with a name, which is made when it is first asked for.
func (r *report) table(name string) *table {
	for _, t := range r.Tables {
		if t.Name == name {
			return t
		}
	}
	t := &table{Name: name, Rounds: map[string][]figures{}}
	r.Tables = append(r.Tables, t)
	return t
}

func (t *table) add(column string, round figures) {
	if !slices.Contains(t.Columns, column) {
		t.Columns = append(t.Columns, column)
	}
	t.Rounds[column] = append(t.Rounds[column], round)
}

// series is a figure in each round in which it was measured.
func (t *table) series(column, name string) (all []float64) {
	for _, round := range t.Rounds[column] {
		for _, figure := range round {
			if figure.Name == name {
				all = append(all, figure.Value)
			}
		}
	}
	return all
}

// rows are the names of all figures.
func (t *table) rows() (names []string) {
	for _, column := range t.Columns {
		for _, round := range t.Rounds[column] {
			for _, figure := range round {
				if !slices.Contains(names, figure.Name) {
					names = append(names, figure.Name)
				}
			}
		}
	}
	return names
}

func (t *table) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\n%s (medians, and each round)\n", t.Name)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "\t%s\t\n", strings.Join(t.Columns, "\t"))
	for _, row := range t.rows() {
		_, _ = fmt.Fprintf(w, "%-32s", row)
		for _, column := range t.Columns {
			_, _ = fmt.Fprint(w, "\t", spread(t.series(column, row)))
		}
		_, _ = fmt.Fprintln(w, "\t")
	}
	_ = w.Flush()
}

// spread is the median, and if there are several values, those, or the smallest and the greatest of many.
func spread(values []float64) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return number(values[0])
	case 2, 3:
		var all []string
		for _, value := range values {
			all = append(all, number(value))
		}
		return number(median(values)) + " (" + strings.Join(all, ", ") + ")"
	}
	return fmt.Sprintf("%s (%s to %s)", number(median(values)), number(quantile(values, 0)), number(quantile(values, 1)))
}

// number is as exact as the figures are that docs/measurements.md quotes.
func number(value float64) string {
	if math.Abs(value) >= 100 || value == math.Trunc(value) {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.2f", value)
}

// goal is a target: a figure of ours, or its multiple of another contestant's in the same round, must be at most so
// much.
type goal struct {
	Table    string  `json:"table"`
	Figure   string  `json:"figure"`
	Over     string  `json:"over,omitempty"`
	AtMost   float64 `json:"atMost"`
	Measured float64 `json:"measured"` // the median
	rounds   []float64
}

// allGoals are the targets of docs/measurements.md. The first delete must be 20 times faster than that of the built-in
// without its client limits.
func allGoals() (all []goal) {
	for _, storm := range []string{stormFresh, stormWarm} {
		all = append(
			all,
			goal{Table: storm, Figure: stormTotal, Over: nameFloor, AtMost: 1.1},
			goal{Table: storm, Figure: stormFirst, Over: nameUnlimited, AtMost: 1. / 20},
			goal{Table: storm, Figure: callsPerPod, AtMost: 2.1},
			goal{Table: storm, Figure: ownCPU, AtMost: 0.6},
		)
	}
	return append(
		all,
		goal{Table: stormSlow, Figure: stormTotal, AtMost: 60},
		goal{Table: tableLateness, Figure: latenessP99, AtMost: 100},
		goal{Table: tableRest, Figure: "peak memory, MiB", AtMost: 90},
	)
}

// measure fills in what was reached, and reports whether it was measured.
func (g *goal) measure(tables []*table) bool {
	i := slices.IndexFunc(tables, func(t *table) bool { return t.Name == g.Table })
	if i < 0 {
		return false
	}
	t := tables[i]
	g.rounds = t.series(nameOurs, g.Figure)
	if g.Over != "" {
		g.rounds = ratios(g.rounds, t.series(g.Over, g.Figure))
	}
	g.Measured = median(g.rounds)
	return len(g.rounds) > 0
}

// ratios compares a figure of each round with that of another contestant in the same round.
func ratios(rounds, others []float64) (all []float64) {
	for i := range min(len(rounds), len(others)) {
		all = append(all, rounds[i]/others[i])
	}
	return all
}

func (g *goal) String() string {
	what, reached := g.Table+", "+g.Figure, "reached"
	if g.Over != "" {
		what += " as a multiple of that of " + g.Over
	}
	if g.Measured > g.AtMost {
		reached = "missed"
	}
	return fmt.Sprintf("%s\tat most %g\t%s\t%s", what, g.AtMost, spread(g.rounds), reached)
}

// conclude prints the targets and writes the file.
func (r *report) conclude(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\ntargets")
	for _, g := range allGoals() {
		if g.measure(r.Tables) {
			r.Goals = append(r.Goals, g)
			_, _ = fmt.Fprintln(w, "  "+g.String())
		}
	}
	_ = w.Flush()
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile("bin/bench.json", append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// quantile returns the smallest value that the given share of the values does not exceed. The values need no order.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func median(values []float64) float64 { return quantile(values, 0.5) }
