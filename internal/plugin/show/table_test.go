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
