// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// selection is an EvictionPolicy and the pods that it selects.
type selection struct {
	*v1alpha1.EvictionPolicy

	// pods are those that are not about to go and that a taint can make leave; none if known is not set.
	pods  []*corev1.Pod
	known bool
}

func (s *selection) finding(message string) Finding {
	return Finding{
		Object:  cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: "EvictionPolicy", Name: s.Name}},
		Message: message,
	}
}

// selectionsOf finds the pods of each policy. Without pods, or without the namespaces by whose labels a policy selects,
// they are not known.
func selectionsOf(cluster *plan.Cluster) []selection {
	if len(cluster.Policies) == 0 {
		return nil
	}
	nodes, namespaces := map[string]labels.Set{}, map[string]labels.Set{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = node.Labels
	}
	for _, namespace := range cluster.Namespaces {
		namespaces[namespace.Name] = namespace.Labels
	}
	var all []selection
	for _, object := range cluster.Policies {
		s := selection{EvictionPolicy: object}
		s.known = len(cluster.Pods) > 0 && (object.Spec.NamespaceSelector == nil || len(namespaces) > 0)
		compiled, _ := policy.New(object) // a selector that cannot be read selects everything
		s.pods = slices.DeleteFunc(slices.Clone(cluster.Pods), func(pod *corev1.Pod) bool {
			return !s.known || pod.DeletionTimestamp != nil || plan.IsStatic(pod) || !compiled.Selects(&policy.Pod{
				Labels: labels.Set(pod.Labels), NamespaceLabels: namespaces[pod.Namespace], NodeLabels: nodes[pod.Spec.NodeName],
			})
		})
		all = append(all, s)
	}
	return all
}

// perPolicy makes a finding of each policy of which a look has something to say. Dry runs hold nothing.
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
