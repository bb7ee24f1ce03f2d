// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// falseComfort: a taint-based eviction is a delete, which ignores PodDisruptionBudgets.
var falseComfort = Rule{
	ID:       "budget-false-comfort",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A PodDisruptionBudget protects less than it seems to",
	Advice:   "Spread the pods over more nodes (topologySpreadConstraints), and run kubectl drain before you taint a node.",
	Find: func(facts *Facts) []Finding {
		byNamespace := map[string][]*corev1.Pod{}
		for _, pod := range facts.Pods {
			if !state.IsOver(pod) {
				byNamespace[pod.Namespace] = append(byNamespace[pod.Namespace], pod)
			}
		}
		var all []Finding
		if len(facts.Pods) == 0 {
			return nil // it is not known what they cover
		}
		heeded := facts.heeded()
		for _, budget := range facts.Budgets {
			if finding, ok := judge(budget, byNamespace[budget.Namespace], heeded); ok {
				finding.Object = objectOf("PodDisruptionBudget", budget.Namespace, budget.Name)
				all = append(all, finding)
			}
		}
		return all
	},
}

// judge looks for a node with more pods of a budget than it allows to leave. Pods that policies protect do not count.
func judge(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod, heeded map[*corev1.Pod]bool) (Finding, bool) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return Finding{Message: fmt.Sprintf("Its selector cannot be read, so it covers no pods: %v.", err), Advice: "Correct the selector."}, true
	}
	covered := 0
	leaving := map[string][]string{}
	for _, pod := range pods {
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		covered++
		if node := pod.Spec.NodeName; node != "" && !state.IsStatic(pod) && !heeded[pod] && leaves(pod.Spec.Tolerations, unforeseen) {
			leaving[node] = append(leaving[node], pod.Name)
		}
	}
	allowed := int(budget.Status.DisruptionsAllowed)
	most := withMost(leaving)
	switch together := leaving[most]; {
	case covered == 0:
		return Finding{
			Severity: cliv1alpha1.SeverityInfo,
			Message:  "It covers no pods.", Advice: "Correct the selector, or delete the PodDisruptionBudget.",
		}, true
	case budget.Status.ObservedGeneration == 0 || len(together) <= allowed:
		return Finding{}, false // it is not known what it allows, or the budget is kept
	default:
		advice := ""
		if allowed == 0 {
			advice = "Run more replicas, or let the PodDisruptionBudget allow a disruption: kubectl drain cannot evict these pods either."
		}
		return Finding{
			Advice: advice,
			Message: fmt.Sprintf("It covers %s and allows %s, but a NoExecute taint on node %s alone evicts %d.",
				sentence.Counted(covered, "pod"), sentence.Counted(allowed, "disruption"), most, len(together)),
			Names: together,
		}, true
	}
}

// withMost returns the node that most pods leave, the first by name if there are several. It is empty if no pod leaves.
func withMost(leaving map[string][]string) string {
	most := ""
	for node, pods := range leaving {
		if n := len(pods); n > len(leaving[most]) || n == len(leaving[most]) && node < most {
			most = node
		}
	}
	return most
}
