// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// selection is an EvictionPolicy and the pods that it selects.
type selection struct {
	*v1alpha1.EvictionPolicy

	pods []*corev1.Pod // those that are not terminating and that a taint can evict
}

func (s *selection) finding(message string) Finding {
	return Finding{
		Object:  objectOf("EvictionPolicy", "", s.Name),
		Message: message,
	}
}

// selectionsOf finds the pods of each policy.
func selectionsOf(cluster *state.Cluster) []selection {
	set := cluster.PoliciesOf()
	if set == nil {
		return nil
	}
	nodes := map[string]policies.Node{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = policies.NodeOf(node)
	}
	var all []selection
	for _, object := range cluster.Policies {
		compiled, _ := policy.New(object) // a selector that cannot be read selects everything
		s := selection{EvictionPolicy: object}
		for _, pod := range cluster.Pods {
			selects := set.Mismatch(compiled, policies.PodOf(pod), nodes[pod.Spec.NodeName]) == ""
			if selects && pod.DeletionTimestamp == nil && !state.IsStatic(pod) {
				s.pods = append(s.pods, pod)
			}
		}
		all = append(all, s)
	}
	return all
}

// heeded returns the pods that policies hold, or about which they ask budgets, for any taint. Deadlines do not count,
// because they were chosen deliberately.
func (f *Facts) heeded() map[*corev1.Pod]bool {
	all := map[*corev1.Pod]bool{}
	for _, s := range f.policies {
		if !s.Spec.DryRun && s.Spec.Action != v1alpha1.ActionDelete && len(s.Spec.Taints) == 0 {
			for _, pod := range s.pods {
				all[pod] = true
			}
		}
	}
	return all
}

// perPolicy examines each policy, and reports at most one finding for each. Dry runs hold nothing.
func (f *Facts) perPolicy(look func(*selection) (Finding, bool)) []Finding {
	var all []Finding
	for i := range f.policies {
		if f.policies[i].Spec.DryRun {
			continue
		}
		if finding, ok := look(&f.policies[i]); ok {
			all = append(all, finding)
		}
	}
	return all
}
