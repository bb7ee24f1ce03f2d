// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// passing are taints that somebody sets for a while, with how long that usually takes.
var passing = map[string]time.Duration{
	corev1.TaintNodeUnschedulable:          24 * time.Hour, // a cordon
	"ToBeDeletedByClusterAutoscaler":       time.Hour,
	"DeletionCandidateOfClusterAutoscaler": time.Hour,
	"karpenter.sh/disrupted":               24 * time.Hour,
}

// staleTaint: Cluster Autoscaler leaves its taints if it is restarted or switched off.
var staleTaint = Rule{
	ID:       "stale-taint",
	Severity: cliv1alpha1.SeverityInfo,
	Title:    "A taint that is set for a while has been on a node for long",
	Advice:   "Remove it (kubectl uncordon for a cordon), or delete the node, if nobody is working on it.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, node := range facts.Nodes {
			for i := range node.Spec.Taints {
				taint := &node.Spec.Taints[i]
				since, most := sinceOf(node, taint), passing[taint.Key]
				if most == 0 || since.IsZero() || facts.Signs.At.Sub(since) <= most {
					continue
				}
				all = append(all, Finding{
					Object:  objectOf("Node", "", node.Name),
					Message: fmt.Sprintf("It has had the taint %s for at least %s.", taint.Key, duration.HumanDuration(facts.Signs.At.Sub(since))),
				})
			}
		}
		return all
	},
}
