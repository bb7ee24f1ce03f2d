// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const eventsPage = "docs/events.md"

// recording has the functions that record an event, each with the index of the argument that is its type. The reason
// and the text follow it.
var recording = map[string]int{"Event": 1, "Eventf": 1, "OfPod": 2}

// event is an event as the code records it. Parts for which the code has no literal are empty.
type event struct {
	kind, reason, text string
	at                 token.Position
}

// source is the code that records events, with its literals.
type source struct {
	events   []event
	literals map[string]bool
}

// readSource reads the packages of the controller.
func readSource(t *testing.T) source {
	t.Helper()
	code, set := source{literals: map[string]bool{}}, token.NewFileSet()
	for _, pattern := range []string{"internal/*", "internal/*/*", "cmd/taintkeeper", "api/v1alpha1"} {
		folders, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(folders) == 0 {
			t.Fatalf("%s: %d folders, %v", pattern, len(folders), err)
		}
		for _, folder := range folders {
			code.add(set, readPackage(t, set, folder))
		}
	}
	return code
}

// readPackage reads the files of a package, except its tests.
func readPackage(t *testing.T, set *token.FileSet, folder string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	return parsed
}

// add adds a package.
func (s *source) add(set *token.FileSet, files []*ast.File) {
	constants := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				for i, value := range node.Values {
					constants[node.Names[i].Name] = literal(value, nil)
				}
			case *ast.BasicLit:
				s.literals[literal(node, nil)] = true
			}
			return true
		})
	}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				s.addCall(set, call, constants)
			}
			return true
		})
	}
}

func (s *source) addCall(set *token.FileSet, call *ast.CallExpr, constants map[string]string) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	at, records := recording[function.Sel.Name]
	if !records || len(call.Args) < at+3 {
		return
	}
	kind, ok := call.Args[at].(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(kind.Sel.Name, "EventType") {
		return // another function with that name, or one that passes on what others record
	}
	s.events = append(s.events, event{
		kind:   strings.TrimPrefix(kind.Sel.Name, "EventType"),
		reason: literal(call.Args[at+1], constants),
		text:   literal(call.Args[at+2], constants),
		at:     set.Position(call.Pos()),
	})
}

// literal returns the string that an expression is, as a literal or by the name of a constant; empty if it is neither.
func literal(expression ast.Expr, constants map[string]string) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return constants[expression.Name]
	case *ast.BasicLit:
		if text, err := strconv.Unquote(expression.Value); err == nil && expression.Kind == token.STRING {
			return text
		}
	}
	return ""
}

// verb matches a verb in a format.
var verb = regexp.MustCompile(`%[a-z]`)

// describedBy reports whether a row of the page is about the event: it has the reason, the type, and the fixed parts of
// the text.
func (e event) describedBy(row string) bool {
	if !strings.Contains(row, "`"+e.reason+"`") || !strings.Contains(row, "| "+e.kind+" |") {
		return false
	}
	for _, words := range verb.Split(e.text, -1) {
		if !strings.Contains(row, strings.TrimSpace(words)) {
			return false
		}
	}
	return true
}

// reasons matches a reason in a column of a row.
var reasons = regexp.MustCompile("`([A-Z][A-Za-z]+)`")

func TestThePageOfEventsHasEveryEventAndNoOther(t *testing.T) {
	var rows []string
	for row := range strings.Lines(readPage(t, eventsPage)) {
		if strings.HasPrefix(row, "| `") {
			rows = append(rows, row)
		}
	}
	code := readSource(t)
	for _, event := range code.events {
		if event.reason != "" && !slices.ContainsFunc(rows, event.describedBy) {
			t.Errorf("%s: %s has no row for %s %s %q", event.at, eventsPage, event.kind, event.reason, event.text)
		}
	}
	const some = 10
	if len(code.events) < some {
		t.Errorf("the code records %d events, which is too few to be all", len(code.events))
	}
	for _, row := range rows {
		for _, reason := range reasons.FindAllStringSubmatch(strings.SplitN(row, "|", 3)[1], -1) {
			if !code.literals[reason[1]] {
				t.Errorf("%s has the reason %s, which is nowhere in the code", eventsPage, reason[1])
			}
		}
	}
}

// What the runbooks quote: lines of the log, and reasons in commands that list events.
var (
	logLine = regexp.MustCompile("`([A-Z][a-z-]+ [^`]+)`")
	asked   = regexp.MustCompile(`reason=([A-Za-z]+)`)
)

func TestWhatTheRunbooksQuoteIsInTheCode(t *testing.T) {
	page, code := readPage(t, "docs/runbooks.md"), readSource(t)
	lines, events := logLine.FindAllStringSubmatch(page, -1), asked.FindAllStringSubmatch(page, -1)
	if len(lines) == 0 || len(events) == 0 {
		t.Fatalf("the runbooks quote %d lines of the log and %d events", len(lines), len(events))
	}
	for _, line := range lines {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(code.literals)), func(literal string) bool {
			return strings.HasPrefix(literal, line[1])
		}) {
			t.Errorf("no line of the log begins with %q", line[1])
		}
	}
	for _, event := range events {
		if !code.literals[event[1]] {
			t.Errorf("no event has the reason %s", event[1])
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
