// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

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
)

const outputHead = `# Output

<!-- Written by make generate from api/cli/v1alpha1: do not edit. -->

What ` + "`-o json` and `-o yaml`" + ` of the [commands](commands.md) print.
The apiVersion is ` + "`cli.taintkeeper.dev/v1alpha1`" + `.
`

// Output returns the page of what the commands print. It reads the types from the folder api/cli/v1alpha1.
func Output(types string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(outputHead)
	err := writeKinds(&out, types)
	return out.Bytes(), err
}

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
	fmt.Fprintf(out, "\n%s\n", paragraph(strings.SplitN(described.Doc, "\n\n", 2)[1]))
	for _, kind := range described.Types {
		for _, spec := range kind.Decl.Specs {
			writeType(out, kind, spec)
		}
	}
	return nil
}

func writeType(out *bytes.Buffer, kind *doc.Type, spec ast.Spec) {
	fmt.Fprintf(out, "\n## %s\n\n%s\n", kind.Name, paragraph(kind.Doc))
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
			if inlined := typeName(field.Type); inlined != "TypeMeta" {
				fmt.Fprintf(out, "| the fields of [%s](#%s) | | |\n", inlined, strings.ToLower(inlined))
			}
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
