// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// noTimeAdded: only the node-lifecycle controller and Taintkeeper write timeAdded. kubectl taint does not, and
// Taintkeeper writes it only if the countdown of a pod is running.
var noTimeAdded = Rule{
	ID:       "no-time-added",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A NoExecute taint has no timeAdded",
	Advice:   "Write timeAdded with the taint, or let Taintkeeper evict: it adds timeAdded if it is allowed to.",
	Find:     findNoTimeAdded,
}

func findNoTimeAdded(facts *Facts) []Finding {
	nodes := map[string][]string{}
	for _, node := range facts.Nodes {
		for _, taint := range taints.NoExecute(node.Spec.Taints) {
			if taint.TimeAdded.IsZero() && facts.counts(node, &taint) {
				spec := taints.Format(taint)
				nodes[spec] = append(nodes[spec], node.Name)
			}
		}
	}
	var all []Finding
	for _, spec := range slices.Sorted(maps.Keys(nodes)) {
		all = append(all, Finding{
			Object:  objectOf("Taint", "", spec),
			Message: fmt.Sprintf("It has no timeAdded on %s, so tolerationSeconds start again when the evicting controller restarts.", sentence.Counted(len(nodes[spec]), "node")),
			Names:   nodes[spec],
		})
	}
	return all
}

// counts reports whether a pod on a node tolerates a taint for a limited time. If no pods are known, one may.
func (f *Facts) counts(node *corev1.Node, taint *corev1.Taint) bool {
	return len(f.Pods) == 0 || slices.ContainsFunc(f.Pods, func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName != node.Name {
			return false
		}
		i, ok := state.Rule.Matcher.First(pod.Spec.Tolerations, taint)
		return ok && pod.Spec.Tolerations[i].TolerationSeconds != nil
	})
}
