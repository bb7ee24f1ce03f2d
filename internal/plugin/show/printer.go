// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package show prints the results of commands: tables that fit the terminal, JSON and YAML of api/cli/v1alpha1,
// notes, and progress. It uses the same words for instants and tolerations everywhere.
package show

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
)

// Formats of -o. Every command that prints a table has them except HTML, which is a page with its own tables. The empty
// format is a table.
const (
	Text = ""
	Wide = "wide"
	Name = "name"
	JSON = "json"
	YAML = "yaml"
	HTML = "html"
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

// NewObjectPrinter returns a printer for a command that prints objects, and no table. Others are additional formats.
func NewObjectPrinter(env command.Env, others ...string) Printer {
	return Printer{Env: env, formats: append([]string{JSON, YAML}, others...)}
}

// AddFlags adds --output and --no-headers.
func (p *Printer) AddFlags(cmd *cobra.Command) {
	p.AddOutput(cmd, "a table")
	cmd.Flags().BoolVar(&p.NoHeaders, "no-headers", false, "Print tables without headers.")
}

// AddOutput adds --output. otherwise is what is printed without it.
func (p *Printer) AddOutput(cmd *cobra.Command, otherwise string) {
	cmd.Flags().StringVarP(&p.Format, "output", "o", "",
		"Output format: "+strings.Join(p.formats, ", ")+". The default is "+otherwise+".")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(p.formats, cobra.ShellCompDirectiveNoFileComp))
}

// Validate rejects a format that the command does not have.
func (p *Printer) Validate() error {
	if p.Format != Text && !slices.Contains(p.formats, p.Format) {
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

// detailed reports whether a table has a row for each pod, with full instants. That is so with -o wide, and without
// headers, because scripts read such tables.
func (p *Printer) detailed() bool { return p.Format == Wide || p.NoHeaders }

// width returns the width of the terminal, or 0 if rows may have any width.
func (p *Printer) width() int {
	if p.detailed() {
		return 0
	}
	return WidthOf(p.Env.Out)
}

// Line prints one line, wrapped between words if it is wider than the terminal. It does not break names.
func (p *Printer) Line(format string, args ...any) {
	fmt.Fprintln(p.Env.Out, Wrap(Printable(fmt.Sprintf(format, args...)), WidthOf(p.Env.Out)))
}

// Loss prints a line about something that is lost. It is red on a terminal.
func (p *Printer) Loss(text string) {
	if !IsTerminal(p.Env.Out) || os.Getenv("NO_COLOR") != "" {
		p.Line("%s", text)
		return
	}
	const red, end = "\x1b[31m", "\x1b[m"
	fmt.Fprintln(p.Env.Out, red+Wrap(Printable(text), WidthOf(p.Env.Out))+end)
}

// Names prints a line for each name, for -o name.
func (p *Printer) Names(notes []string, names []string) {
	p.Notes(notes)
	for _, name := range names {
		fmt.Fprintln(p.Env.Out, Printable(name))
	}
}

// Notes prints notes on stderr. It is for output that has no place for notes on stdout.
func (p *Printer) Notes(sentences []string) {
	for _, sentence := range sentences {
		fmt.Fprintln(p.Env.ErrOut, Wrap("Note: "+Printable(sentence), WidthOf(p.Env.ErrOut)))
	}
}

// WithKind returns an object with its kind, which typed clients leave empty.
func WithKind(object runtime.Object, apiVersion, kind string) runtime.Object {
	object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	return object
}
