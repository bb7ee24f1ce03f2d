// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// noTimeAdded: nobody but the node-lifecycle controller and Taintkeeper writes timeAdded. kubectl taint does not.
var noTimeAdded = Rule{
	ID:       "no-time-added",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A NoExecute taint has no timeAdded",
	Advice:   "Write timeAdded with the taint, or let Taintkeeper evict, which writes it where it may.",
	Find:     findNoTimeAdded,
}

func findNoTimeAdded(facts *Facts) []Finding {
	nodes := map[string][]string{}
	for _, node := range facts.Nodes {
		for _, taint := range taints.NoExecute(node.Spec.Taints) {
			if taint.TimeAdded.IsZero() {
				spec := taints.Format(taint)
				nodes[spec] = append(nodes[spec], node.Name)
			}
		}
	}
	var all []Finding
	for _, spec := range slices.Sorted(maps.Keys(nodes)) {
		all = append(all, Finding{
			Object:  cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: "Taint", Name: spec}},
			Message: fmt.Sprintf("It has no timeAdded on %s, so its tolerationSeconds count anew when the controller that evicts restarts.", sentence.Counted(len(nodes[spec]), "node")),
			Names:   nodes[spec],
		})
	}
	return all
}
