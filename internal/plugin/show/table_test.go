// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
)

// printed is what a function prints on a terminal with a width.
func printed(width int, with func(*Printer)) string {
	var text strings.Builder
	with(&Printer{Env: command.Env{IOStreams: genericiooptions.IOStreams{Out: Narrow{Writer: &text, Width: width}}}})
	return text.String()
}

func TestATableFitsTheTerminal(t *testing.T) {
	columns := []Column[string]{
		{Title: "Name", Cell: func(row string) string { return row }},
		{Title: "Empty", Cell: func(string) string { return "" }},
		{Title: "Zone", Shared: true, Cell: func(string) string { return "a" }},
		{Title: "Says", Below: true, Cell: func(row string) string { return strings.Repeat("word ", 8) + row }},
		{Title: "Owner", Cell: func(row string) string { return "Deployment/" + row }},
	}
	rows := []string{"short", "a-name-that-is-longer-than-all-others-in-the-table-and-ends-in-x"}
	for width, want := range map[int]string{
		80: `Zone a:
NAME                                       SAYS
short                                      word word word word word word word
                                           word short
a-name-that-is-longe…table-and-ends-in-x   word word word word word word word
                                           word
                                           a-name-that-is-lon…able-and-ends-in-x
No room for Owner: -o wide.
`,
		50: `Zone a:
NAME
short
    Says: word word word word word word word word
      short
a-name-that-is-longe…table-and-ends-in-x
    Says: word word word word word word word word
      a-name-that-is-longer-than-all-others-in-the-table-and-ends-in-x
No room for Owner: -o wide.
`,
	} {
		if got := printed(width, func(p *Printer) { Table(p, columns, rows) }); got != want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", width, got, want)
		}
	}
}

func TestManyPodsShareRowsTheWorstFirst(t *testing.T) {
	type pod struct{ workload, node string }
	var rows []pod
	for i := range 2000 {
		rows = append(rows, pod{fmt.Sprintf("app-%02d", i%40), fmt.Sprint(i % 7)})
	}
	columns := []Column[pod]{
		{Title: "Pod"},
		{Title: "Node", Counts: "node", Cell: func(row pod) string { return row.node }},
	}
	text := printed(80, func(p *Printer) {
		Pods(p, columns, rows, func(row pod) Pod {
			is := Pod{Namespace: "shop", Name: "p", Node: row.node, Owner: &cliv1alpha1.Owner{Kind: "Deployment", Name: row.workload}}
			if row.workload == "app-07" {
				is.Damage = 1
			}
			return is
		})
	})
	lines := strings.Split(text, "\n")
	if want := "50 pods of Deployment shop/app-07   7 nodes"; len(lines) != 23 || lines[1] != want {
		t.Errorf("the first of %d lines is %q, want %q and 20 more:\n%s", len(lines), lines[1], want, text)
	}
	if want := "... and 1000 more: -o wide."; lines[21] != want {
		t.Errorf("the last line is %q, want %q", lines[21], want)
	}
}

func TestALineBreaksBetweenWords(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		width int
		want  string
	}{
		"not a terminal":                    {"one two three", 0, "one two three"},
		"fits":                              {"one two", 7, "one two"},
		"goes on with an indent":            {"one two three four", 9, "one two\n  three\n  four"},
		"an indent stays":                   {"  one two", 8, "  one\n    two"},
		"a word that is too long has a row": {"a 123456789 b", 5, "a\n  123456789\n  b"},
		"columns keep their gap":            {"a   b", 5, "a   b"},
		"a command stays whole":             {"    kubectl get nodes", 9, "    kubectl get nodes"},
	} {
		if got := Wrap(test.text, test.width); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

func TestParagraphsAndListsFitTheTerminal(t *testing.T) {
	const text = `one two
three four.

Has:
- one two three
  four
- two

  kind: as it is, wide or not
  a  one two three
and on`
	const want = `one two three
four.

Has:
- one two
  three four
- two

  kind: as it is, wide or not
  a  one two
     three
and on`
	if got := Reflow(text, 13); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Reflow(text, 0); got != text {
		t.Errorf("without a terminal: got\n%s", got)
	}
}
