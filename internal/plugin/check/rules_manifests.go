// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// unreadableTemplate: the API server rejects such a workload too. Other workloads are still checked.
var unreadableTemplate = Rule{
	ID:       "unreadable-template",
	Severity: cliv1alpha1.SeverityError,
	Title:    "The pod template of a workload cannot be read",
	Advice:   "Correct the field.",
	Find:     func(facts *Facts) []Finding { return facts.flaws(false, "It cannot be checked: %v.") },
}

// unknownField: kubectl apply refuses such a manifest. With --validate=false, and from other clients, the API server
// drops the field, and a toleration without its seconds never ends.
var unknownField = Rule{
	ID:       "unknown-field",
	Severity: cliv1alpha1.SeverityError,
	Title:    "A manifest has a field that does not exist, or has one twice",
	Advice:   "Correct the field: the API server refuses the manifest, or ignores the field.",
	Find:     func(facts *Facts) []Finding { return facts.flaws(true, "It has %v.") },
}

// flaws returns what is wrong with manifests that could be read, or with those that could not be.
func (f *Facts) flaws(isRead bool, message string) (all []Finding) {
	for _, flaw := range f.Flaws {
		if flaw.IsRead == isRead {
			object := Object{flaw.Object, flaw.Source}
			all = append(all, Finding{Object: object, Message: fmt.Sprintf(message, flaw.Why)})
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return byName(a.Object, b.Object) })
	return all
}

func byName(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.source, b.source))
}
