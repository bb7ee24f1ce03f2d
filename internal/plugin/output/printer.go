// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package output prints the results of commands: tables that fit the terminal, JSON and YAML of api/cli/v1alpha1,
// notes, and progress. It uses the same words for instants and tolerations everywhere.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
)

// Formats of -o. Every command that prints a table has them except HTML, which is a page with its own tables. The empty
// format is a table.
const (
	Table = ""
	Wide  = "wide"
	Name  = "name"
	JSON  = "json"
	YAML  = "yaml"
	HTML  = "html"
)

// Printer prints the result of a command.
type Printer struct {
	Env command.Env
	// Format is one of the formats of the command.
	Format    string
	NoHeaders bool

	formats []string
}

// NewPrinter returns a printer of the formats that every command with a table has, and of additional ones.
func NewPrinter(env command.Env, others ...string) Printer {
	return Printer{Env: env, formats: append([]string{JSON, YAML, Wide, Name}, others...)}
}

// NewObjectPrinter returns a printer for a command that prints one object, and no table.
func NewObjectPrinter(env command.Env) Printer {
	return Printer{Env: env, formats: []string{JSON, YAML}}
}

// AddFlags adds --output and --no-headers.
func (p *Printer) AddFlags(cmd *cobra.Command) {
	p.AddOutput(cmd, "a table")
	cmd.Flags().BoolVar(&p.NoHeaders, "no-headers", false, "Print tables without headers.")
}

// AddOutput adds --output. otherwise is what is printed without it.
func (p *Printer) AddOutput(cmd *cobra.Command, otherwise string) {
	cmd.Flags().StringVarP(&p.Format, "output", "o", "",
		"How to print: "+strings.Join(p.formats, ", ")+". The default is "+otherwise+".")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(p.formats, cobra.ShellCompDirectiveNoFileComp))
}

// Validate rejects a format that the command does not have.
func (p *Printer) Validate() error {
	if p.Format != Table && !slices.Contains(p.formats, p.Format) {
		return command.Usagef("--output=%s: choose one of %s", p.Format, strings.Join(p.formats, ", "))
	}
	if p.NoHeaders && p.Format == HTML {
		return command.Usagef("--no-headers applies only to tables: remove it with --output=%s", p.Format)
	}
	return nil
}

// Object prints a versioned object as JSON or YAML if that was requested, and reports whether it was.
func (p *Printer) Object(object any) (printed bool, err error) {
	var data []byte
	switch p.Format {
	case JSON:
		data, err = json.MarshalIndent(object, "", "    ")
		data = append(data, '\n')
	case YAML:
		if data, err = yaml.Marshal(object); err != nil {
			err = fmt.Errorf("print as YAML: %w: try --output=json", err)
		}
	default:
		return false, nil
	}
	if err == nil {
		_, err = p.Env.Out.Write(data)
	}
	return true, err
}

// Table prints rows below column names. Columns with a "+" are only for -o wide, whose rows may be wider than the
// terminal.
func (p *Printer) Table(columns []string, rows [][]any) error {
	table := &metav1.Table{}
	for _, column := range columns {
		name, wide := strings.CutPrefix(column, "+")
		definition := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if wide {
			definition.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, definition)
	}
	for _, row := range rows {
		for i, cell := range row {
			if text, ok := cell.(string); ok {
				row[i] = Printable(text)
			}
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: row})
	}
	options := printers.PrintOptions{NoHeaders: p.NoHeaders, Wide: p.Format == Wide}
	var text strings.Builder
	if err := printers.NewTablePrinter(options).PrintObj(table, &text); err != nil {
		return err
	}
	_, err := io.WriteString(p.Env.Out, fit(text.String(), p.width()))
	return err
}

// width returns the width of the terminal, or 0 if rows may have any width.
func (p *Printer) width() int {
	if p.Format == Wide {
		return 0
	}
	return WidthOf(p.Env.Out)
}

// IsNarrow reports whether rows of a table would be cut because they are wider than the terminal.
func (p *Printer) IsNarrow(columns []string, rows [][]any) bool {
	width := p.width()
	if width == 0 {
		return false
	}
	return widthOf(columns, rows) > width
}

// widthOf returns the width of a table. Columns for -o wide do not count.
func widthOf(columns []string, rows [][]any) int {
	const gap, least = 3, 6 // in kubectl's table printer
	whole := -gap
	for i, column := range columns {
		if strings.HasPrefix(column, "+") {
			continue
		}
		widest := ansi.StringWidth(column)
		for _, row := range rows {
			widest = max(widest, ansi.StringWidth(fmt.Sprint(row[i])))
		}
		whole += max(widest+gap, least)
	}
	return whole
}

// TableWithReasons prints a table whose last columns are sentences. If the table is wider than the terminal, it prints
// as many of the last columns as necessary below each row.
func (p *Printer) TableWithReasons(columns []string, rows [][]any) error {
	if !p.IsNarrow(columns, rows) {
		return p.Table(columns, rows)
	}
	fits := len(columns) - 1
	for fits > 1 && p.IsNarrow(columns[:fits], rows) {
		fits--
	}
	heads := make([][]any, 0, len(rows))
	for _, row := range rows {
		heads = append(heads, row[:fits])
	}
	var text strings.Builder
	above := *p
	above.Env.Out = Narrow{Writer: &text, Width: p.width()}
	if err := above.Table(columns[:fits], heads); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	headers := len(lines) - len(rows)
	for i, line := range lines {
		fmt.Fprintln(p.Env.Out, line)
		if i < headers {
			continue
		}
		for column, cell := range rows[i-headers] {
			if column >= fits && cell != "" {
				p.Line("    %s: %s", columns[column], cell)
			}
		}
	}
	return nil
}

// Line prints one line, wrapped between words if it is wider than the terminal. It does not break names.
func (p *Printer) Line(format string, args ...any) {
	text := Printable(fmt.Sprintf(format, args...))
	if p.Format != Name {
		text = Wrap(text, WidthOf(p.Env.Out))
	}
	fmt.Fprintln(p.Env.Out, text)
}

// Notes prints notes on stderr. It is for output that has no place for notes on stdout.
func (p *Printer) Notes(sentences []string) {
	for _, sentence := range Merged(sentences) {
		fmt.Fprintln(p.Env.ErrOut, Wrap("Note: "+Printable(sentence), WidthOf(p.Env.ErrOut)))
	}
}

// WithKind returns an object with its kind, which typed clients leave empty.
func WithKind(object runtime.Object, apiVersion, kind string) runtime.Object {
	object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	return object
}
