// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// TaintsOf returns the taints of nodes that match, and how the pods on each node tolerate them.
func TaintsOf(cluster *state.Cluster, nodes []*corev1.Node, match func(corev1.Taint) bool) []cliv1alpha1.NodeTaint {
	all := []cliv1alpha1.NodeTaint{}
	byNode := cluster.ByNode()
	for _, node := range nodes {
		for _, taint := range node.Spec.Taints {
			if match(taint) {
				all = append(all, nodeTaint(node.Name, taint, byNode[node.Name]))
			}
		}
	}
	return all
}

func nodeTaint(node string, taint corev1.Taint, pods []*corev1.Pod) cliv1alpha1.NodeTaint {
	listed := cliv1alpha1.NodeTaint{
		Node: node, Taint: taints.Format(taint),
		Key: taint.Key, Value: taint.Value, Effect: taint.Effect, TimeAdded: taint.TimeAdded,
	}
	for _, pod := range pods {
		switch i, tolerated := state.Rule.Matcher.First(pod.Spec.Tolerations, &taint); {
		case !tolerated:
			listed.NotAtAll++
		case taint.Effect == corev1.TaintEffectNoExecute && pod.Spec.Tolerations[i].TolerationSeconds != nil:
			listed.ForAWhile++
		default:
			listed.Indefinite++
		}
	}
	return listed
}
