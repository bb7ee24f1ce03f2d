// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference writes docs/commands.md from the commands and types themselves: every command with its flags, and
// every kind that -o json and -o yaml print.
package reference

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cli"
)

const head = `# Commands

<!-- Written by make generate from the commands themselves: do not edit. -->

` + "`kubectl taintkeeper`" + ` says what a taint would do before it is set. Only ` + "`taint`, `untaint`, `pause` and `resume`" + ` change anything, and
nothing needs to be installed in the cluster, except for the last two. Every command that reads, except ` + "`board` and `report`" + `, also takes files (` + "`-f`" + `): the output of ` + "`kubectl get nodes,pods,pdb,replicasets -A -o yaml`" + ` or of
` + "`kubectl taintkeeper snapshot`" + `.

Exit codes: 0 means done, 1 failed (stderr says why), and 2 a wrong command line. Each command lists its other codes.
`

// Markdown returns the page. It reads the types from the folder of api/cli/v1alpha1.
func Markdown(types string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(head)
	root := cli.New(cli.Env{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), Clock: clock.RealClock{}})
	for _, command := range root.Commands() {
		if command.IsAvailableCommand() {
			writeCommand(&out, command, "##")
		}
	}
	fmt.Fprintf(&out, "\n## Flags of every command\n\nThey select a cluster and its credentials, as in kubectl.\n\n")
	writeFlags(&out, root.PersistentFlags())
	if err := writeKinds(&out, types); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeCommand(out *bytes.Buffer, command *cobra.Command, heading string) {
	fmt.Fprintf(out, "\n%s %s\n\n%s\n", heading, command.Name(), cmp.Or(command.Long, command.Short+"."))
	if command.Runnable() {
		fmt.Fprintf(out, "\n    %s\n", strings.TrimSuffix(command.UseLine(), " [flags]"))
	}
	if command.Example != "" {
		fmt.Fprintf(out, "\n```sh\n%s\n```\n", unindent(command.Example))
	}
	if command.LocalNonPersistentFlags().HasAvailableFlags() {
		out.WriteString("\n")
		writeFlags(out, command.LocalNonPersistentFlags())
	}
	for _, sub := range command.Commands() {
		if sub.IsAvailableCommand() {
			writeCommand(out, sub, heading+"#")
		}
	}
}

func unindent(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.TrimPrefix(line, "  "))
	}
	return strings.Join(lines, "\n")
}

func writeFlags(out *bytes.Buffer, flags *pflag.FlagSet) {
	out.WriteString("| flag | default | |\n| --- | --- | --- |\n")
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		name := "`--" + flag.Name + "`"
		if flag.Shorthand != "" {
			name += ", `-" + flag.Shorthand + "`"
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", name, defaultOf(flag), cell(flag.Usage))
	})
}

// defaultOf leaves out empty defaults, and the home directory of the user who runs this.
func defaultOf(flag *pflag.Flag) string {
	switch {
	case flag.DefValue == "", flag.DefValue == "[]", flag.DefValue == "false", flag.DefValue == "0",
		flag.Name == "cache-dir":
		return ""
	}
	return "`" + flag.DefValue + "`"
}

func cell(text string) string { return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text) }

// writeKinds describes the exported types of a package.
func writeKinds(out *bytes.Buffer, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasPrefix(filepath.Base(name), "zz_") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("read the types of what the commands print: %w", err)
		}
		parsed = append(parsed, file)
	}
	described, err := doc.NewFromFiles(set, parsed, "v1alpha1")
	if err != nil {
		return fmt.Errorf("read the types of what the commands print: %w", err)
	}
	fmt.Fprintf(out, "\n## What -o json and -o yaml print\n\n`apiVersion: cli.taintkeeper.dev/v1alpha1`. %s\n", paragraph(strings.SplitN(described.Doc, "\n\n", 2)[1]))
	for _, kind := range described.Types {
		for _, spec := range kind.Decl.Specs {
			writeType(out, kind, spec)
		}
	}
	return nil
}

func writeType(out *bytes.Buffer, kind *doc.Type, spec ast.Spec) {
	fmt.Fprintf(out, "\n### %s\n\n%s\n", kind.Name, paragraph(kind.Doc))
	typed, ok := spec.(*ast.TypeSpec)
	if !ok {
		return
	}
	fields, ok := typed.Type.(*ast.StructType)
	if !ok {
		writeValues(out, kind)
		return
	}
	out.WriteString("\n| field | type | |\n| --- | --- | --- |\n")
	for _, field := range fields.Fields.List {
		if field.Tag == nil {
			continue
		}
		name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
		if name == "" {
			continue
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, typeName(field.Type), cell(paragraph(field.Doc.Text()+" "+field.Comment.Text())))
	}
}

// writeValues lists the constants of a type.
func writeValues(out *bytes.Buffer, kind *doc.Type) {
	out.WriteString("\n")
	for _, group := range kind.Consts {
		for _, spec := range group.Decl.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || len(value.Values) == 0 {
				continue
			}
			literal, ok := value.Values[0].(*ast.BasicLit)
			if ok && literal.Value != `""` {
				fmt.Fprintf(out, "- `%s`: %s\n", strings.Trim(literal.Value, `"`), cmp.Or(paragraph(value.Doc.Text()+value.Comment.Text()), "see above"))
			}
		}
	}
}

// paragraph returns a comment as one line, without markers for generators.
func paragraph(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		if !strings.HasPrefix(line, "+") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}

// typeName returns the name of a type for readers of JSON.
func typeName(expression ast.Expr) string {
	switch t := expression.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.ArrayType:
		return "list of " + typeName(t.Elt)
	case *ast.MapType:
		return "map of " + typeName(t.Value)
	case *ast.SelectorExpr:
		if strings.HasSuffix(t.Sel.Name, "Time") {
			return "instant"
		}
		if t.Sel.Name == "UID" || t.Sel.Name == "TaintEffect" {
			return "string"
		}
		return t.Sel.Name
	case *ast.Ident:
		if strings.HasPrefix(t.Name, "int") {
			return "number"
		}
		return t.Name
	}
	return ""
}
