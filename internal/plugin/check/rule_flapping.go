// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// flaps is how many evictions of one pod must have been cancelled. The built-in controller also reports a cancellation
// when someone else deletes the pod, which happens only once per pod.
const flaps = 3

// flappingTaint: two writers undo each other's work, or a condition comes and goes.
var flappingTaint = Rule{
	ID:       "flapping-taint",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A NoExecute taint of a node comes and goes",
	Advice:   "Find out why its writer keeps setting and removing the taint, before pods are evicted because of it.",
	Find: func(facts *Facts) []Finding {
		pods, most := map[string][]string{}, map[string]int{}
		for _, pod := range facts.Pods {
			trace := facts.Signs.Cancelled[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
			node := pod.Spec.NodeName
			if node != "" && trace.Count >= flaps && pod.CreationTimestamp.Time.Before(trace.Last) {
				pods[node] = append(pods[node], pod.Name)
				most[node] = max(most[node], trace.Count)
			}
		}
		var all []Finding
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			times := sentence.Agree(len(pods[name]), "", "up to ") + sentence.Counted(most[name], "time")
			all = append(all, Finding{
				Object: objectOf("Node", "", name),
				Message: fmt.Sprintf("Evictions of %s were cancelled %s, as happens when a taint comes and goes%s.",
					sentence.Counted(len(pods[name]), "pod"), times, facts.lastWriter(name)),
				Names: pods[name],
			})
		}
		return all
	},
}

// lastWriter says which field manager last wrote the taints of a node. It is empty if that is not known.
func (f *Facts) lastWriter(name string) string {
	node := f.Node(name)
	if node == nil {
		return ""
	}
	written := state.TaintsWritten(node)
	if written == nil {
		return ""
	}
	return fmt.Sprintf("; field manager %s last wrote the taints of the node, at %s",
		cmp.Or(written.Manager, "unknown"), who.Instant(written.Time.Time))
}
