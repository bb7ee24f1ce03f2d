// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// String is the table of all that was played.
func (b *book) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	pods := 0
	for _, n := range b.pods {
		pods += n
	}
	took := time.Since(b.began)
	fmt.Fprintf(table, "\tHISTORIES\tPODS\n")
	fmt.Fprintf(table, "played\t%d\t%d\n", b.played, pods)
	fmt.Fprintf(table, "both the same, to the second\t%d\t%d\n", b.agreed, b.pods[none])
	for _, set := range slices.SortedFunc(maps.Keys(b.histories), smallFirst) {
		fmt.Fprintf(table, "upstream differs because of %s\t%d\t%d\n", set, b.histories[set], b.pods[set])
	}
	fmt.Fprintf(table, "a difference that nothing explains\t%d\t\n", b.wrong)
	fmt.Fprintf(table, "upstream deleted twice at its start\t\t%d\n", b.repeats)
	fmt.Fprintf(table, "%s, %.0f histories per second\t\t\n", took.Round(time.Second), float64(b.played)/took.Seconds())
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}

func smallFirst(a, b defects) int {
	return cmp.Or(cmp.Compare(a.size(), b.size()), cmp.Compare(a, b))
}
