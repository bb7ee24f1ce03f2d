// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// evictedAgain: the scheduler takes no notice of tolerationSeconds (kubernetes/kubernetes#92170).
var evictedAgain = Rule{
	ID:       "evicted-again",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "Pods are scheduled to a node that evicts them after a while, again and again",
	Advice:   "Add the same taint with the effect NoSchedule to the nodes, so that the scheduler keeps the pods off.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if !workload.isReplaced() {
				continue
			}
			for _, list := range workload.Lists {
				comes := map[string][]string{} // to which nodes, by taint and toleration
				for _, node := range facts.Nodes {
					taint, toleration := endsOn(list.Effective, node)
					if toleration != nil && mayRunOn(workload.Pod, node) {
						why := fmt.Sprintf("taint %s only for a while, with %s", taints.Format(taint), literal(*toleration))
						comes[why] = append(comes[why], node.Name)
					}
				}
				for _, why := range slices.Sorted(maps.Keys(comes)) {
					all = append(all, Finding{
						Object: workload.Object, Names: names(list.Pods),
						Message: fmt.Sprintf("It tolerates %s, and nothing keeps its pods off nodes that have it: %s.", why, sentence.Some(comes[why])),
					})
				}
			}
		}
		return all
	},
}

// endsOn returns the first NoExecute taint of a node that pods tolerate for a limited time, if they tolerate all taints
// that would keep them off. Node health adds its taints together with their twins.
func endsOn(tolerations []corev1.Toleration, node *corev1.Node) (ends corev1.Taint, ending *corev1.Toleration) {
	for _, taint := range node.Spec.Taints {
		toleration, tolerated := first(tolerations, taint)
		switch {
		case taint.Effect == corev1.TaintEffectPreferNoSchedule:
		case !tolerated:
			return corev1.Taint{}, nil
		case taint.Effect == corev1.TaintEffectNoExecute && toleration.TolerationSeconds != nil && ending == nil:
			ends, ending = taint, toleration
		}
	}
	return ends, ending
}

// mayRunOn reports whether the node selector and the node affinity of a pod match a node.
func mayRunOn(pod *corev1.Pod, node *corev1.Node) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && matches
}

// toleratesCordon: the most frequent mistake with tolerations. Pods of a DaemonSet tolerate a cordon by design.
var toleratesCordon = Rule{
	ID:       "tolerates-cordon",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A workload tolerates a cordon, so its pods come back to a node that is being drained",
	Advice:   "Tolerate only the taints that the pods need, and not node.kubernetes.io/unschedulable.",
	Find: func(facts *Facts) []Finding {
		cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
		var all []Finding
		for _, workload := range facts.Workloads {
			finding := Finding{Object: workload.Object}
			for _, list := range workload.Lists {
				if toleration, tolerated := first(list.Effective, cordon); tolerated && workload.isReplaced() {
					finding.Message = fmt.Sprintf("Its pods may come back to a cordoned node, because of toleration %s.", literal(*toleration))
					finding.Names = append(finding.Names, names(list.Pods)...)
				}
			}
			if finding.Message != "" {
				all = append(all, finding)
			}
		}
		return all
	},
}

// daemonSetKeptOff: taints of node health and of the control plane keep many DaemonSets off on purpose.
var daemonSetKeptOff = Rule{
	ID:       "daemonset-kept-off",
	Severity: cliv1alpha1.SeverityInfo,
	Title:    "A taint keeps a DaemonSet off nodes that it selects",
	Advice:   "If the nodes need its pods, let it tolerate the taint.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if workload.Kind != "DaemonSet" {
				continue
			}
			kept := map[string][]string{}
			for _, node := range facts.Nodes {
				taint, isKept := state.Rule.Matcher.Untolerated(node.Spec.Taints, workload.Lists[0].Effective)
				if isKept && !isOfKubernetes(taint.Key) && mayRunOn(daemonPod(workload), node) {
					kept[taints.Format(taint)] = append(kept[taints.Format(taint)], node.Name)
				}
			}
			for _, spec := range slices.Sorted(maps.Keys(kept)) {
				all = append(all, Finding{
					Object:  workload.Object,
					Message: fmt.Sprintf("Taint %s keeps it off %s.", spec, sentence.Some(kept[spec])),
				})
			}
		}
		return all
	},
}

func isOfKubernetes(key string) bool {
	return has(components[0].keys, key) || has(components[0].startup, key)
}

// daemonPod returns a pod of a DaemonSet without the affinity that its controller adds, which names one node.
func daemonPod(workload *Workload) *corev1.Pod {
	pod := *workload.Pod
	if len(workload.Lists[0].Pods) > 0 {
		pod.Spec.Affinity = nil
	}
	return &pod
}

// severalBudgets: the Eviction API returns 500 for such pods, so kubectl drain never ends.
var severalBudgets = Rule{
	ID:       "several-budgets",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "Several PodDisruptionBudgets select one pod, so the Eviction API always refuses to evict it",
	Advice:   "Change the selectors of the PodDisruptionBudgets so that each pod has one.",
	Find: func(facts *Facts) []Finding {
		covers := coveringOf(facts.Cluster)
		var all []Finding
		for _, workload := range facts.Workloads {
			var pods []string
			var budgets []*covering
			for _, list := range workload.Lists {
				for _, pod := range list.Pods {
					if of := budgetsOf(covers, pod); len(of) > 1 {
						pods, budgets = append(pods, pod.Name), append(budgets, of...)
					}
				}
			}
			if len(pods) > 0 {
				all = append(all, Finding{
					Object: workload.Object, Names: pods,
					Message: fmt.Sprintf("kubectl drain cannot evict %s: %s.",
						sentence.Counted(len(pods), "pod"), budgetNames(budgets)),
				})
			}
		}
		return all
	},
}
