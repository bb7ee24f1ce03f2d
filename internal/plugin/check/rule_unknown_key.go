// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/agnivade/levenshtein"
	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// unknownKey: a key with a typing error looks like any other.
var unknownKey = Rule{
	ID:       "unknown-key",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration has a key that nobody uses",
	Advice:   "Take the toleration out, unless a taint with this key is to come.",
	Find: func(facts *Facts) []Finding {
		keys := slices.Clone(wellKnown)
		for _, node := range facts.Nodes {
			for _, taint := range node.Spec.Taints {
				if !slices.Contains(keys, taint.Key) {
					keys = append(keys, taint.Key)
				}
			}
		}
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			switch key := list[i].Key; {
			case key == "" || slices.Contains(keys, key):
				return Finding{}
			case nearest(key, keys) != "":
				return Finding{
					Message: fmt.Sprintf("Toleration %s: nobody uses the key %s; %s may be meant.", literal(list[i]), key, nearest(key, keys)),
					Advice:  "Correct the key.",
				}
			case len(facts.Nodes) == 0:
				return Finding{} // a node may have it
			default:
				return Finding{
					Severity: cliv1alpha1.SeverityInfo,
					Message:  fmt.Sprintf("Toleration %s: no node has a taint with the key %s, and no known component sets one.", literal(list[i]), key),
				}
			}
		})
	},
}

// wellKnown are the keys that Kubernetes and widely used components set.
var wellKnown = []string{
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeUnschedulable,
	corev1.TaintNodeMemoryPressure,
	corev1.TaintNodeDiskPressure,
	corev1.TaintNodeNetworkUnavailable,
	corev1.TaintNodePIDPressure,
	corev1.TaintNodeOutOfService,
	"node.cloudprovider.kubernetes.io/uninitialized",
	"node.cloudprovider.kubernetes.io/shutdown",
	"node-role.kubernetes.io/control-plane",
	"node-role.kubernetes.io/master",
	"CriticalAddonsOnly", // convention, older than priorities
	"ToBeDeletedByClusterAutoscaler",
	"DeletionCandidateOfClusterAutoscaler",
	"karpenter.sh/disrupted",
	"karpenter.sh/unregistered",
	"cloud.google.com/impending-node-termination",
	"kubernetes.azure.com/scalesetpriority",
	"node.cilium.io/agent-not-ready",
	"ebs.csi.aws.com/agent-not-ready",
	"efs.csi.aws.com/agent-not-ready",
	"nvidia.com/gpu",
	"amd.com/gpu",
}

// nearest returns the key that is all but the same, empty if there is none. Short keys are alike by chance.
func nearest(key string, keys []string) string {
	const most, short = 2, 8
	if len(key) < short {
		return ""
	}
	best, distance := "", most+1
	for _, other := range keys {
		if d := levenshtein.ComputeDistance(key, other); d < distance {
			best, distance = other, d
		}
	}
	return best
}
