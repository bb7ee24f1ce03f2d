// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// Timetable implements arena.Trial: it writes down a trial: what happened when, and then, for each pod, when it had to leave
// and when it was deleted.
func (t *trial) Timetable() string {
	var text strings.Builder
	for _, node := range t.history.Nodes {
		fmt.Fprintf(&text, "%12s  %s\n", "before", node)
	}
	for _, pod := range t.history.Pods {
		fmt.Fprintf(&text, "%12s  %s\n", "before", pod)
	}
	for _, next := range t.history.occasions() {
		what := "the controller starts"
		if next.step != nil {
			what = next.step.Do.String()
		}
		fmt.Fprintf(&text, "%12s  %s\n", clock(next.at), what)
	}
	text.WriteString("\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POD\tRULE\tOURS\tUPSTREAM\tMODEL OF UPSTREAM\tDIFFERENCE")
	explanation, faults := t.explain(), t.Faults()
	for _, uid := range t.uids() {
		because := "unexplained"
		if set, ok := explanation[uid]; ok {
			because = set.String()
		}
		if i := slices.IndexFunc(faults, func(f arena.Fault) bool { return f.Name == uid }); i >= 0 {
			because = string(faults[i].Kind)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", uid,
			when(t.rule[uid]), when(t.ours[uid]), when(t.upstream[uid]), when(t.model[uid]), because)
	}
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}
