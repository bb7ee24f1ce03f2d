// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
)

// Formats of -o that every command knows. The empty one is a table.
const (
	formatTable = ""
	formatWide  = "wide"
	formatName  = "name"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// output is how a command prints.
type output struct {
	env       Env
	format    string
	noHeaders bool
	formats   []string
}

// newOutput returns an output of the formats that every command knows, and of others.
func newOutput(env Env, others ...string) output {
	return output{env: env, formats: append([]string{formatJSON, formatYAML, formatWide, formatName}, others...)}
}

func (o *output) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "",
		"How to print: "+strings.Join(o.formats, ", ")+"; a table without it.")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Print tables without headers.")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) validate() error {
	if o.format != formatTable && !slices.Contains(o.formats, o.format) {
		return usagef("--output=%s: choose one of %s", o.format, strings.Join(o.formats, ", "))
	}
	if o.noHeaders && o.format == formatHTML {
		return usagef("--no-headers is for tables: leave it out with --output=%s", o.format)
	}
	return nil
}

// object prints a versioned object as JSON or YAML, and reports whether that was asked for.
func (o *output) object(object runtime.Object) (bool, error) {
	switch o.format {
	case formatJSON:
		return true, (&printers.JSONPrinter{}).PrintObj(object, o.env.Out)
	case formatYAML:
		if err := (&printers.YAMLPrinter{}).PrintObj(object, o.env.Out); err != nil {
			return true, fmt.Errorf("print as YAML: %w: --output=json may do", err)
		}
		return true, nil
	}
	return false, nil
}

// table prints rows below column names. Those behind a "+" are for -o wide alone.
func (o *output) table(columns []string, rows [][]any) error {
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
				row[i] = printable(text)
			}
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: row})
	}
	options := printers.PrintOptions{NoHeaders: o.noHeaders, Wide: o.format == formatWide}
	out := fitting{o.env.Out, widthOf(o.env.Out)}
	return printers.NewTablePrinter(options).PrintObj(table, &out)
}

// line prints one line.
func (o *output) line(format string, args ...any) {
	fmt.Fprintln(o.env.Out, printable(fmt.Sprintf(format, args...)))
}

// notes says on stderr what could not be known, where stdout has no place for it.
func (o *output) notes(sentences []string) {
	for _, sentence := range sentences {
		fmt.Fprintln(o.env.ErrOut, "Note:", printable(sentence))
	}
}

// fitting cuts lines to the width of a terminal, so that a table stays one. Zero cuts nothing.
type fitting struct {
	out   io.Writer
	width int
}

// Write implements io.Writer. Printers write whole lines, and many at once.
func (f *fitting) Write(data []byte) (int, error) {
	if f.width == 0 {
		return f.out.Write(data)
	}
	for line := range strings.Lines(string(data)) {
		text, end, _ := strings.Cut(line, "\n")
		if _, err := fmt.Fprint(f.out, ansi.Truncate(text, f.width, "…")); err != nil {
			return 0, err
		}
		if strings.HasSuffix(line, "\n") {
			end = "\n"
		}
		if _, err := fmt.Fprint(f.out, end); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// isTerminal reports whether somebody reads along.
func isTerminal(stream any) bool {
	file, ok := fileOf(stream)
	return ok && term.IsTerminal(int(file.Fd()))
}

// fileOf returns the file that a stream is, if it is one.
func fileOf(stream any) (*os.File, bool) {
	if written, ok := stream.(*written); ok {
		stream = written.Writer
	}
	file, ok := stream.(*os.File)
	return file, ok
}

// widthOf returns the width of a terminal, 0 for anything else.
func widthOf(out io.Writer) int {
	file, ok := fileOf(out)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
