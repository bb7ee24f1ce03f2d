// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plancmd

import (
	"fmt"
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// withWhereTo adds where pods would go to a table, behind their owners.
func withWhereTo(plan *cliv1alpha1.TaintPlan, columns []string, rows [][]any) ([]string, [][]any) {
	at := slices.Index(columns, "Owner") + 1
	for i := range rows {
		where := plan.Pods[i].WhereTo
		rows[i] = slices.Insert(rows[i], at, any(whereTo(where)), any(fits(where)))
	}
	return slices.Insert(slices.Clone(columns), at, "Where to", "+Fits"), rows
}

func whereTo(where *cliv1alpha1.WhereTo) string {
	switch {
	case where == nil:
		return ""
	case where.NoSuccessor:
		return "no successor"
	case where.Reason != "":
		return "no answer"
	case where.Bound:
		return "not placed"
	case where.Node == "":
		return "nowhere"
	}
	return where.Node
}

// fits says how many nodes would take a pod. A bound is marked as one.
func fits(where *cliv1alpha1.WhereTo) string {
	switch {
	case where == nil || where.Reason != "":
		return ""
	case where.Bound:
		return fmt.Sprintf("<=%d", where.Fits)
	}
	return fmt.Sprint(where.Fits)
}
