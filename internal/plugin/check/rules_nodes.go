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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// noTimeAdded: only the node-lifecycle controller and Taintkeeper write timeAdded. kubectl taint does not, and
// Taintkeeper writes it only if the countdown of a pod is running.
var noTimeAdded = Rule{
	ID:       "no-time-added",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A NoExecute taint has no timeAdded",
	Advice:   "Write timeAdded with the taint, or let Taintkeeper evict: it adds timeAdded if it is allowed to.",
	Find:     findNoTimeAdded,
}

func findNoTimeAdded(facts *Facts) []Finding {
	nodes := map[string][]string{}
	for _, node := range facts.Nodes {
		for _, taint := range taints.NoExecute(node.Spec.Taints) {
			if taint.TimeAdded.IsZero() && facts.counts(node, &taint) {
				spec := taints.Format(taint)
				nodes[spec] = append(nodes[spec], node.Name)
			}
		}
	}
	var all []Finding
	for _, spec := range slices.Sorted(maps.Keys(nodes)) {
		all = append(all, Finding{
			Object:  objectOf("Taint", "", spec),
			Message: fmt.Sprintf("It has no timeAdded on %s, so tolerationSeconds start again when the evicting controller restarts.", sentence.Counted(len(nodes[spec]), "node")),
			Names:   nodes[spec],
		})
	}
	return all
}

// counts reports whether a pod on a node tolerates a taint for a limited time. If no pods are known, one may.
func (f *Facts) counts(node *corev1.Node, taint *corev1.Taint) bool {
	return len(f.Pods) == 0 || slices.ContainsFunc(f.Pods, func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName != node.Name {
			return false
		}
		i, ok := state.Rule.Matcher.First(pod.Spec.Tolerations, taint)
		return ok && pod.Spec.Tolerations[i].TolerationSeconds != nil
	})
}

// flaps is how many evictions of one pod must have been cancelled. The built-in controller also reports a cancellation
// when someone else deletes the pod, which happens only once per pod.
const flaps = 3

// flappingTaint: two writers undo each other's work, or a condition comes and goes.
var flappingTaint = Rule{
	ID:       "flapping-taint",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A NoExecute taint of a node comes and goes",
	Advice:   "Find out why its writer keeps setting and removing the taint, before pods are evicted because of it.",
	Find: func(facts *Facts) []Finding {
		pods, most := map[string][]string{}, map[string]int{}
		for _, pod := range facts.Pods {
			trace := facts.Signs.Cancelled[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
			node := pod.Spec.NodeName
			if node != "" && trace.Count >= flaps && pod.CreationTimestamp.Time.Before(trace.Last) {
				pods[node] = append(pods[node], pod.Name)
				most[node] = max(most[node], trace.Count)
			}
		}
		var all []Finding
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			times := sentence.Agree(len(pods[name]), "", "up to ") + sentence.Counted(most[name], "time")
			all = append(all, Finding{
				Object: objectOf("Node", "", name),
				Message: fmt.Sprintf("Evictions of %s were cancelled %s, as happens when a taint comes and goes%s.",
					sentence.Counted(len(pods[name]), "pod"), times, facts.lastWriter(name)),
				Names: pods[name],
			})
		}
		return all
	},
}

// lastWriter says which field manager last wrote the taints of a node. It is empty if that is not known.
func (f *Facts) lastWriter(name string) string {
	node := f.Node(name)
	if node == nil {
		return ""
	}
	written := state.TaintsWritten(node)
	if written == nil {
		return ""
	}
	return fmt.Sprintf("; field manager %s last wrote the taints of the node, at %s",
		cmp.Or(written.Manager, "unknown"), who.Instant(written.Time.Time))
}

// shortGrace reads the Lease of Taintkeeper's leader. The built-in looks every 5 s, so it waits longer than that.
var shortGrace = Rule{
	ID:       "short-grace-period",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "One late renewal makes a node that lives NotReady",
	Advice: "Raise " + readiness.MonitorGraceFlag + " to at least " + readiness.LeastGrace.String() +
		", or let kubelets renew their Leases more often.",
	Find: func(facts *Facts) []Finding {
		leader := facts.who.Process.Leader
		if leader == nil || leader.MonitorGrace == 0 {
			return nil
		}
		if warning := (readiness.Grace{Monitor: leader.MonitorGrace}).Warning(); warning != "" {
			return facts.nodeHealth.found(Finding{Message: warning + "."})
		}
		return nil
	},
}

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
	Advice:   "Once the work on the node is done, remove it (kubectl uncordon for a cordon), or delete the node.",
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
