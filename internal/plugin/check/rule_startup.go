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
		for _, node := range facts.Nodes {
			for i := range node.Spec.Taints {
				taint := &node.Spec.Taints[i]
				if removerOf(taint.Key) != nil && readiness.IsReady(node) && facts.isOld(node, taint) {
					key := corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect}
					nodes[key] = append(nodes[key], node.Name)
				}
			}
		}
		var all []Finding
		for _, taint := range slices.SortedFunc(maps.Keys(nodes), byKey) {
			remover := removerOf(taint.Key)
			all = append(all, Finding{
				Object: cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: "Taint", Name: taints.Format(taint)}},
				Message: fmt.Sprintf("This taint is removed by %s when a node has started (%s), but it has been on %s for more than %d minutes.",
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

// isOld reports whether a node has certainly had a taint for longer than it takes to start. Without a timeAdded, only
// managed fields tell, which 'kubectl get -o yaml' leaves out.
func (f *Facts) isOld(node *corev1.Node, taint *corev1.Taint) bool {
	since := taint.TimeAdded
	if written := state.TaintsWritten(node); since.IsZero() && written != nil {
		since = written.Time
	}
	return !since.IsZero() && f.Signs.At.Sub(since.Time) > startupFor
}
