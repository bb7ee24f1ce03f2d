// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plancmd

import (
	"fmt"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

func whereTo(where *cliv1alpha1.WhereTo) string {
	switch {
	case where == nil:
		return ""
	case where.NoSuccessor:
		return "no successor"
	case where.Reason != "", where.Bound:
		return "uncertain"
	case where.Node == "":
		return "nowhere"
	}
	return where.Node
}

// fits says how many nodes would take a pod. It marks an upper bound.
func fits(where *cliv1alpha1.WhereTo) string {
	switch {
	case where == nil || where.Reason != "":
		return ""
	case where.Bound:
		return fmt.Sprintf("<=%d", where.Fits)
	}
	return fmt.Sprint(where.Fits)
}
