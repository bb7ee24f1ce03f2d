// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// unreachableIndefinitely: pods of a DaemonSet, static pods and pods without a controller get no successor on another
// node.
var unreachableIndefinitely = Rule{
	ID:       "unreachable-indefinitely",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A workload tolerates an unreachable or not ready node indefinitely",
	Advice:   "Tolerate node.kubernetes.io/unreachable and not-ready with tolerationSeconds, before any toleration that matches everything.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if !workload.isReplaced() {
				continue
			}
			finding := Finding{Object: workload.Object}
			for _, list := range workload.Lists {
				for _, failed := range []struct {
					taint corev1.Taint
					when  string
				}{{unreachable, "when their node fails"}, {notReady, "while their node is not ready"}} {
					toleration, tolerated := first(list.Effective, failed.taint)
					if tolerated && toleration.TolerationSeconds == nil {
						finding.Message = fmt.Sprintf("Its pods are not replaced %s, because of toleration %s.", failed.when, literal(*toleration))
						finding.Names = append(finding.Names, names(list.Pods)...)
						break
					}
				}
			}
			if finding.Message != "" {
				all = append(all, finding)
			}
		}
		return all
	},
}

// isReplaced reports whether a controller creates a successor of the workload's pods on another node.
func (w *Workload) isReplaced() bool {
	switch w.Kind {
	case "DaemonSet", "Pod", "Node":
		return false
	}
	return true
}

// daemonSetLeaves: of the tolerations with effect NoExecute, the DaemonSet controller adds only those for not-ready and
// unreachable.
var daemonSetLeaves = Rule{
	ID:       "daemonset-leaves",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A DaemonSet leaves a node that gets a common taint",
	Advice:   "If other pods on the node need it (network, volumes, logs), let it tolerate everything: operator Exists without a key.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if workload.Kind != "DaemonSet" {
				continue
			}
			for _, finding := range workload.leaving(notReady, unreachable, outOfService, unforeseen) {
				if !workload.isCritical() {
					finding.Severity = cliv1alpha1.SeverityInfo
				}
				all = append(all, finding)
			}
		}
		return all
	},
}

// leaving returns a finding for each set of taints that make pods of a workload leave.
func (w *Workload) leaving(common ...corev1.Taint) []Finding {
	var all []Finding
	for _, list := range w.Lists {
		var why []string
		for _, taint := range common {
			if leaves(list.Effective, taint) {
				why = append(why, inWords(taint))
			}
		}
		if len(why) == 0 {
			continue
		}
		message := fmt.Sprintf("It leaves a node that gets %s.", strings.Join(why, ", or "))
		i := slices.IndexFunc(all, func(finding Finding) bool { return finding.Message == message })
		if i < 0 {
			i = len(all)
			all = append(all, Finding{Object: w.Object, Message: message})
		}
		all[i].Names = append(all[i].Names, names(list.Pods)...)
	}
	return all
}

func inWords(taint corev1.Taint) string {
	if taint.MatchTaint(&unforeseen) {
		return "a NoExecute taint that its tolerations do not name, such as one for maintenance"
	}
	return taints.Format(corev1.Taint{Key: taint.Key, Effect: taint.Effect})
}

// Pods that Kubernetes itself considers critical have this priority or a higher one.
const systemPriority = 2_000_000_000

// isCritical reports whether the workload is part of the system, according to its priority.
func (w *Workload) isCritical() bool {
	pod := w.Pod
	return strings.HasPrefix(pod.Spec.PriorityClassName, "system-") || pod.Spec.Priority != nil && *pod.Spec.Priority >= systemPriority
}

// controlPlaneLeaves: a control plane of static pods stays, because only a kubelet can end those.
var controlPlaneLeaves = Rule{
	ID:       "control-plane-leaves",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A control plane component leaves a node that gets a common taint",
	Advice:   "Add one toleration that matches every NoExecute taint, after those for not-ready and unreachable with tolerationSeconds.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if workload.Kind != "DaemonSet" && workload.isControlPlane() {
				all = append(all, workload.leaving(outOfService, unforeseen)...)
			}
		}
		return all
	},
}

// parts are the programs of a control plane, as named in labels.
var parts = []string{
	"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "cloud-controller-manager", "taintkeeper",
}

// isControlPlane reports whether the pods of the workload belong to the control plane and are not static.
func (w *Workload) isControlPlane() bool {
	pod := w.Pod
	return !state.IsStatic(pod) && (pod.Labels["tier"] == "control-plane" || slices.ContainsFunc(
		[]string{"component", "k8s-app", "app.kubernetes.io/name", "app.kubernetes.io/component"},
		func(label string) bool { return slices.Contains(parts, pod.Labels[label]) },
	))
}

// singleReplica: the 300 seconds are a default, and there is no other replica meanwhile.
var singleReplica = Rule{
	ID:       "single-replica",
	Severity: cliv1alpha1.SeverityInfo,
	Title:    "A single replica waits for the default time on a failed node",
	Advice:   "Run a second replica, or tolerate not-ready and unreachable for as long as the workload may be unavailable.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if workload.Replicas != 1 || !workload.isReplaced() || workload.Kind == "Job" || workload.Kind == "CronJob" {
				continue
			}
			list := workload.Lists[0]
			if toleration, tolerated := first(list.Effective, unreachable); tolerated && isDefault(*toleration) {
				all = append(all, Finding{
					Object:  workload.Object,
					Message: fmt.Sprintf("Its only replica waits the default %d s on an unreachable node before it is replaced.", defaultSeconds),
					Names:   names(list.Pods),
				})
			}
		}
		return all
	},
}

// isDefault reports whether a toleration is the one that the admission plugin DefaultTolerationSeconds adds.
func isDefault(t corev1.Toleration) bool {
	return t.Key == corev1.TaintNodeUnreachable && t.TolerationSeconds != nil && *t.TolerationSeconds == defaultSeconds
}

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

// namesNode: pods that name their node do not pass the scheduler, which keeps pods off nodes with NoExecute taints.
// Such a pod is due as soon as it exists, and its controller replaces it at once (kubernetes/kubernetes#75913).
var namesNode = Rule{
	ID:       "names-node",
	Severity: cliv1alpha1.SeverityError,
	Title:    "Pods that name their node are created on a node that evicts them",
	Advice:   "Replace spec.nodeName in the template with a nodeSelector for kubernetes.io/hostname, so that pods wait until the taint is gone, or let the pods tolerate the taint.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			finding := facts.comesBack(workload)
			if workload.isTemplate() {
				finding = facts.templateNamesNode(workload)
			}
			if finding != nil {
				finding.Object = workload.Object
				all = append(all, *finding)
			}
		}
		return all
	},
}

// isTemplate reports whether the workload was read from a file, without its pods.
func (w *Workload) isTemplate() bool { return len(w.Lists) == 1 && len(w.Lists[0].Pods) == 0 }

// templateNamesNode finds a template that names its node.
func (f *Facts) templateNamesNode(workload *Workload) *Finding {
	name := workload.Pod.Spec.NodeName
	if name == "" {
		return nil
	}
	if taint := f.untolerated(name, workload.Lists[0].Effective); taint != nil {
		return &Finding{Message: fmt.Sprintf("Its template names node %s, and does not tolerate taint %s of that node: its pods are created and evicted again and again.",
			name, taints.Format(*taint))}
	}
	return &Finding{
		Severity: cliv1alpha1.SeverityWarning,
		Message: fmt.Sprintf("Its template names node %s, so the scheduler does not keep its pods off: while the node has a NoExecute taint that they do not tolerate, they are created and evicted again and again.",
			name),
	}
}

// boundAnyway is how long after a taint a pod must have been created to prove that it did not pass the scheduler, which
// may not have seen the taint yet. timeAdded is in whole seconds.
const boundAnyway = 10 * time.Second

// comesBack finds pods that were created on their node long after its taint, which they do not tolerate.
func (f *Facts) comesBack(workload *Workload) *Finding {
	if workload.Kind == "Pod" {
		return nil
	}
	var finding *Finding
	for _, list := range workload.Lists {
		for _, pod := range list.Pods {
			taint := f.untolerated(pod.Spec.NodeName, pod.Spec.Tolerations)
			if state.IsStatic(pod) || taint == nil || taint.TimeAdded.IsZero() ||
				pod.CreationTimestamp.Sub(taint.TimeAdded.Time) < boundAnyway {
				continue
			}
			if finding == nil {
				finding = &Finding{Message: fmt.Sprintf("Its pods are created on node %s although they do not tolerate taint %s, which was added before, and are evicted again and again: its template names the node, or its pods have a scheduler that ignores taints.",
					pod.Spec.NodeName, taints.Format(*taint))}
			}
			finding.Names = append(finding.Names, pod.Name)
		}
	}
	return finding
}

// untolerated returns the first NoExecute taint of a node that no toleration matches, or nil.
func (f *Facts) untolerated(node string, tolerations []corev1.Toleration) *corev1.Taint {
	on := f.Node(node)
	if on == nil {
		return nil
	}
	for _, taint := range taints.NoExecute(on.Spec.Taints) {
		if _, tolerated := first(tolerations, taint); !tolerated {
			return &taint
		}
	}
	return nil
}
