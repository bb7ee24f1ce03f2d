// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package web is the one page of plan -o html, simulate -o html and the board. A page is a static document with the
// JSON that -o json prints in it; the board's receives JSON while it is open. One script, page.js, draws it.
//
// The script reads that JSON directly and describes the tables of each kind of page, because this takes the least code:
// a common shape for Go and JavaScript would be a third model next to the JSON and the tables, and each would have to
// convert to or from it. Go renders only what people without JavaScript need: the answer, what is lost, and workloads.
//
// A page requests nothing except the board's events from its own server. Its Content-Security-Policy allows its own
// script and style by their hashes, and requires trusted types, so that no data can become markup.
package web

import (
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
)

var (
	//go:embed page.html
	markup string
	//go:embed page.css
	style string
	//go:embed page.js
	script string

	parsed = template.Must(template.New("page").Parse(markup))
)

// Kinds of pages, by the commands that write them.
const (
	Plan     = "plan"
	Simulate = "simulate"
	board    = "board"
)

// Page is what Go renders of a page, and the data for the script.
type Page struct {
	Kind, Title string
	// Answer is the answer in one sentence. Losses are sentences about what is lost.
	Answer string
	Losses []string
	Facts  []Fact
	// Workloads are for people without JavaScript.
	Workloads *Table
	Footer    string
	// Data is what -o json prints. The board's page has none.
	Data any
}

// Fact is something that the page is about, such as its cluster.
type Fact struct{ Name, Value, ID string }

// Table is a table of texts, of which the first column names the row.
type Table struct {
	Columns []string
	Rows    [][]string
	More    int
}

// mostListed is how many workloads are listed for people without JavaScript. With it, all are.
const mostListed = 100

// NewTable returns a table with a row for each object, the first of many.
func NewTable[T any](columns []string, objects []T, row func(T) []string) *Table {
	if len(objects) == 0 {
		return nil
	}
	t := &Table{Columns: columns, More: max(0, len(objects)-mostListed)}
	for _, object := range objects[:len(objects)-t.More] {
		t.Rows = append(t.Rows, row(object))
	}
	return t
}

// mostLosses is how many losses are listed above the tables, which have them all.
const mostLosses = 8

// Write writes a page.
func Write(out io.Writer, page Page) error {
	if more := len(page.Losses) - mostLosses; more > 0 {
		page.Losses = append(slices.Clone(page.Losses[:mostLosses]), fmt.Sprintf("And %d more, below.", more))
	}
	err := parsed.Execute(out, struct {
		Page

		Policy string
		Style  template.CSS
		Script template.JS
	}{page, policy(page.Kind), template.CSS(style), template.JS(script)})
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// policy is the Content-Security-Policy of a kind of page. The empty icon keeps browsers from requesting one.
func policy(kind string) string {
	connect := "'none'"
	if kind == board {
		connect = "'self'"
	}
	return fmt.Sprintf("default-src 'none'; connect-src %s; img-src data:; style-src '%s'; script-src '%s'; base-uri 'none'; "+
		"form-action 'none'; require-trusted-types-for 'script'", connect, hash(style), hash(script))
}

func hash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
