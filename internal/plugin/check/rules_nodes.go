// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/taints"
)

// failedNodes says in one line how many nodes have failed, and where. It is a warning if half of a zone has.
func failedNodes(f *facts, found func(finding)) {
	zones := state.ZonesOf(f.Nodes)
	is := finding{object: objectOf("Controller", "", who.NodeHealth), severity: info, message: state.FailedNodes(zones) + "."}
	for _, node := range f.Nodes {
		if failed, _ := state.HasFailed(node); failed {
			is.nodes = append(is.nodes, node.Name)
		}
	}
	if state.IsDisrupted(zones) {
		is.severity = warning
	}
	if len(is.nodes) > 0 {
		found(is)
	}
}

// shortGrace reads the Lease of Taintkeeper's leader. The built-in looks every 5 s, so it waits longer than that.
func shortGrace(f *facts, found func(finding)) {
	leader := f.who.Process.Leader
	if leader == nil || leader.MonitorGrace == 0 {
		return
	}
	if says := (readiness.Grace{Monitor: leader.MonitorGrace}).Warning(); says != "" {
		found(finding{object: objectOf("Controller", "", who.NodeHealth), message: says + "."})
	}
}

func taintObject(taint corev1.Taint) object { return objectOf("Taint", "", taints.Format(taint)) }

// noTimeAdded: only the node-lifecycle controller and Taintkeeper write timeAdded. kubectl taint does not, and
// Taintkeeper writes it only if the countdown of a pod is running.
func noTimeAdded(f *facts, found func(finding)) {
	pods := f.ByNode()
	for _, node := range f.Nodes {
		for _, taint := range taints.NoExecute(node.Spec.Taints) {
			countsDown := len(f.Pods) == 0 || slices.ContainsFunc(pods[node.Name], func(pod *corev1.Pod) bool {
				toleration := first(pod.Spec.Tolerations, taint)
				return toleration != nil && toleration.TolerationSeconds != nil
			})
			if taint.TimeAdded.IsZero() && countsDown {
				found(finding{
					object: taintObject(taint), nodes: []string{node.Name},
					message: "It has no timeAdded on {nodes}, so tolerationSeconds start again when the evicting controller restarts.",
				})
			}
		}
	}
}

// flaps is how many evictions of one pod must have been cancelled. The built-in controller also reports a cancellation
// when someone else deletes the pod, which happens only once per pod.
const flaps = 3

// flappingTaint: two writers undo each other's work, or a condition comes and goes.
func flappingTaint(f *facts, found func(finding)) {
	for _, pod := range f.Pods {
		trace := f.Signs.Cancelled[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
		if pod.Spec.NodeName != "" && trace.Count >= flaps && pod.CreationTimestamp.Time.Before(trace.Last) {
			found(finding{
				object: objectOf("Node", "", pod.Spec.NodeName), pods: []string{pod.Name},
				message: fmt.Sprintf("Evictions of {pods} were cancelled at least %d times, as happens when a taint comes and goes%s.",
					flaps, f.lastWriter(pod.Spec.NodeName)),
			})
		}
	}
}

// lastWriter says which field manager last wrote the taints of a node. It is empty if that is not known.
func (f *facts) lastWriter(name string) string {
	if node := f.nodes[name]; node != nil {
		if written := state.TaintsWritten(node); written != nil {
			return fmt.Sprintf("; field manager %s last wrote the taints of the node, at %s",
				cmp.Or(written.Manager, "unknown"), who.Instant(written.Time.Time))
		}
	}
	return ""
}

// passing are taints that somebody sets for a while, with how long that usually takes.
var passing = map[string]time.Duration{
	corev1.TaintNodeUnschedulable:          24 * time.Hour, // a cordon
	"ToBeDeletedByClusterAutoscaler":       time.Hour,
	"DeletionCandidateOfClusterAutoscaler": time.Hour,
	"karpenter.sh/disrupted":               24 * time.Hour,
}

// staleTaint: Cluster Autoscaler leaves its taints if it is restarted or switched off.
func staleTaint(f *facts, found func(finding)) {
	for _, node := range f.Nodes {
		for _, taint := range node.Spec.Taints {
			since, most := sinceOf(node, &taint), passing[taint.Key]
			if age := f.Signs.At.Sub(since); most > 0 && !since.IsZero() && age > most {
				found(finding{
					object:  objectOf("Node", "", node.Name),
					message: fmt.Sprintf("It has had the taint %s for at least %s.", taint.Key, duration.HumanDuration(age)),
				})
			}
		}
	}
}

// startupFor is how long a node may have a startup taint: the default of Cluster Autoscaler's flag
// --max-node-startup-time.
const startupFor = 15 * time.Minute

// startupTaint: if a component is gone, or wrongly considers a node done, its taint stays on nodes
// (cilium/cilium#31943, kubernetes-sigs/node-readiness-controller#342).
func startupTaint(f *facts, found func(finding)) {
	for _, node := range f.Nodes {
		for _, taint := range node.Spec.Taints {
			remover := slices.IndexFunc(components, func(c component) bool { return has(c.startup, taint.Key) })
			if remover < 0 || !readiness.IsReady(node) {
				continue
			}
			is := finding{object: taintObject(taint), nodes: []string{node.Name}}
			since, long := sinceOf(node, &taint), "it has been on {nodes} for more than %d minutes"
			if since.IsZero() { // as in files without managed fields
				since = readiness.Condition(node, corev1.NodeReady).LastTransitionTime.Time
				is.severity, long = info, "it is still on {nodes}, ready for more than %d minutes"
			}
			if !since.IsZero() && f.Signs.At.Sub(since) > startupFor {
				is.message = fmt.Sprintf("This taint is removed by %s when a node has started (%s), but "+long+".",
					components[remover].name, components[remover].source, int(startupFor.Minutes()))
				found(is)
			}
		}
	}
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
