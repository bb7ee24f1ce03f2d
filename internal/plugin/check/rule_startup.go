// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// startupFor is how long a node may have a startup taint: the default of Cluster Autoscaler's flag
// --max-node-startup-time.
const startupFor = 15 * time.Minute

// startupTaint: if a component is gone, or wrongly considers a node done, its taint stays on nodes
// (cilium/cilium#31943, kubernetes-sigs/node-readiness-controller#342).
var startupTaint = Rule{
	ID:       "startup-taint",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A ready node still has a startup taint",
	Advice:   "Find out why the component does not remove its taint, or remove it with kubectl taint if the component is gone.",
	Find: func(facts *Facts) []Finding {
		nodes := map[corev1.Taint][]string{}
		undated := map[corev1.Taint]bool{}
		for _, node := range facts.Nodes {
			for i := range node.Spec.Taints {
				taint := &node.Spec.Taints[i]
				if removerOf(taint.Key) == nil || !readiness.IsReady(node) {
					continue
				}
				since := sinceOf(node, taint)
				key := corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect}
				if since.IsZero() { // as in files without managed fields
					undated[key] = true
					since = readiness.Condition(node, corev1.NodeReady).LastTransitionTime.Time
				}
				if !since.IsZero() && facts.Signs.At.Sub(since) > startupFor {
					nodes[key] = append(nodes[key], node.Name)
				}
			}
		}
		var all []Finding
		for _, taint := range slices.SortedFunc(maps.Keys(nodes), byKey) {
			remover := removerOf(taint.Key)
			severity, long := cliv1alpha1.SeverityWarning, "it has been on %s for more than %d minutes"
			if undated[taint] {
				severity, long = cliv1alpha1.SeverityInfo, "it is still on %s, ready for more than %d minutes"
			}
			all = append(all, Finding{
				Severity: severity,
				Object:   objectOf("Taint", "", taints.Format(taint)),
				Message: fmt.Sprintf("This taint is removed by %s when a node has started (%s), but "+long+".",
					remover.name, remover.source, sentence.Counted(len(nodes[taint]), "ready node"), int(startupFor.Minutes())),
				Names: nodes[taint],
			})
		}
		return all
	},
}

func byKey(a, b corev1.Taint) int {
	return cmp.Compare(taints.Format(a), taints.Format(b))
}

// removerOf returns the component that removes the taint from nodes that have started, or nil.
func removerOf(key string) *component {
	i := slices.IndexFunc(components, func(c component) bool { return has(c.startup, key) })
	if i < 0 {
		return nil
	}
	return &components[i]
}

// sinceOf returns since when a node has had a taint at the latest; zero if that is not recorded.
func sinceOf(node *corev1.Node, taint *corev1.Taint) time.Time {
	if !taint.TimeAdded.IsZero() {
		return taint.TimeAdded.Time
	}
	if written := state.TaintsWritten(node); written != nil {
		return written.Time.Time
	}
	return time.Time{}
}
