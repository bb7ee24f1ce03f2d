// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// unreadableTemplate: the API server rejects such a workload too. Other workloads are still checked.
var unreadableTemplate = Rule{
	ID:       "unreadable-template",
	Severity: cliv1alpha1.SeverityError,
	Title:    "The pod template of a workload cannot be read",
	Advice:   "Correct the field.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, object := range slices.SortedFunc(maps.Keys(facts.Unreadable), byName) {
			all = append(all, Finding{
				Object: object, Message: fmt.Sprintf("It cannot be checked: %v.", facts.Unreadable[object]),
			})
		}
		return all
	},
}

func byName(a, b cliv1alpha1.CheckedObject) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}
