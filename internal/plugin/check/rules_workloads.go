// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// unreachableIndefinitely: pods of a DaemonSet, static pods and pods without a controller get no successor on another
// node.
func unreachableIndefinitely(f *facts, found func(finding)) {
	for w, l := range f.lists() {
		for _, failed := range []struct {
			taint corev1.Taint
			when  string
		}{{unreachable, "when their node fails"}, {notReady, "while their node is not ready"}} {
			toleration := first(l.effective, failed.taint)
			if w.isReplaced() && toleration != nil && toleration.TolerationSeconds == nil {
				found(w.finding(l, "Its pods are not replaced %s, because of toleration %s.", failed.when, literal(*toleration)))
				break
			}
		}
	}
}

// leaving finds workloads that leave a node that gets a common taint. Of the tolerations with effect NoExecute, the
// DaemonSet controller adds only those for not-ready and unreachable.
func leaving(is func(*workload) bool, common ...corev1.Taint) search {
	return func(f *facts, found func(finding)) {
		for w, l := range f.lists() {
			var why []string
			for _, taint := range common {
				switch {
				case !is(w) || !leaves(l.effective, taint):
				case taint == unforeseen:
					why = append(why, "a NoExecute taint that its tolerations do not name, such as one for maintenance")
				default:
					why = append(why, taint.Key+":NoExecute")
				}
			}
			if len(why) == 0 {
				continue
			}
			goes := w.finding(l, "It leaves a node that gets %s.", strings.Join(why, ", or "))
			if w.isDaemonSet() && !w.isCritical() {
				goes.severity = info
			}
			found(goes)
		}
	}
}

// singleReplica: the 300 seconds are what the admission plugin DefaultTolerationSeconds adds, and there is no other
// replica meanwhile.
func singleReplica(f *facts, found func(finding)) {
	for w, l := range f.lists() {
		toleration := first(l.effective, unreachable)
		if w.replicas == 1 && w.isReplaced() && w.Kind != "Job" && w.Kind != "CronJob" && toleration != nil &&
			toleration.Key == unreachable.Key && ptr.Equal(toleration.TolerationSeconds, new(defaultSeconds)) {
			found(w.finding(l, "Its only replica waits the default %d s on an unreachable node before it is replaced.", defaultSeconds))
		}
	}
}

// evictedAgain: the scheduler takes no notice of tolerationSeconds (kubernetes/kubernetes#92170).
func evictedAgain(f *facts, found func(finding)) {
	for w, l := range f.lists() {
		for _, node := range f.Nodes {
			taint, toleration := endsOn(l.effective, node)
			if toleration == nil || !w.isReplaced() || !mayRunOn(w.pod, node) {
				continue
			}
			is := w.finding(l, "It tolerates taint %s only for a while, with %s, and nothing keeps its pods off nodes that have it: {some nodes}.",
				taints.Format(taint), literal(*toleration))
			is.nodes = []string{node.Name}
			if taint.Key == notReady.Key || taint.Key == unreachable.Key {
				is.advice = fmt.Sprintf("Do not tolerate %s:NoSchedule, which node health adds to keep pods off.", taint.Key)
			}
			found(is)
		}
	}
}

// endsOn returns the first NoExecute taint of a node that pods tolerate for a limited time, if they tolerate all taints
// that would keep them off. Node health adds its taints together with their twins.
func endsOn(tolerations []corev1.Toleration, node *corev1.Node) (ends corev1.Taint, ending *corev1.Toleration) {
	for _, taint := range node.Spec.Taints {
		toleration := first(tolerations, taint)
		switch {
		case taint.Effect == corev1.TaintEffectPreferNoSchedule:
		case toleration == nil:
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
func toleratesCordon(f *facts, found func(finding)) {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	for w, l := range f.lists() {
		if toleration := first(l.effective, cordon); toleration != nil && w.isReplaced() {
			found(w.finding(l, "Its pods may come back to a cordoned node, because of toleration %s.", literal(*toleration)))
		}
	}
}

// daemonSetKeptOff: taints of node health and of the control plane keep many DaemonSets off on purpose. The affinity
// that the DaemonSet controller adds to a pod names one node, so it does not count.
func daemonSetKeptOff(f *facts, found func(finding)) {
	kubernetes := components[0].keys + " " + components[0].startup
	for _, w := range f.workloads {
		if !w.isDaemonSet() {
			continue
		}
		pod := *w.pod
		if !w.isTemplate() {
			pod.Spec.Affinity = nil
		}
		for _, node := range f.Nodes {
			taint, isKept := state.Rule.Matcher.Untolerated(node.Spec.Taints, w.lists[0].effective)
			if isKept && !has(kubernetes, taint.Key) && mayRunOn(&pod, node) {
				found(finding{
					object: w.object, nodes: []string{node.Name},
					message: fmt.Sprintf("Taint %s keeps it off {some nodes}.", taints.Format(taint)),
				})
			}
		}
	}
}

// boundAnyway is how long after a taint a pod must have been created to prove that it did not pass the scheduler, which
// may not have seen the taint yet. timeAdded is in whole seconds.
const boundAnyway = 10 * time.Second

// namesNode: pods that name their node do not pass the scheduler, which keeps pods off nodes with NoExecute taints.
// Such a pod is due as soon as it exists, and its controller replaces it at once (kubernetes/kubernetes#75913).
func namesNode(f *facts, found func(finding)) {
	for w, l := range f.lists() {
		if name := w.pod.Spec.NodeName; w.isTemplate() && name != "" {
			is := w.finding(l, "Its template names node %s, so the scheduler does not keep its pods off: while the node has a NoExecute taint that they do not tolerate, they are created and evicted again and again.", name)
			if taint := f.untolerated(name, l.effective); taint != nil {
				is.message = fmt.Sprintf("Its template names node %s, and does not tolerate taint %s of that node: its pods are created and evicted again and again.",
					name, taints.Format(*taint))
			} else {
				is.severity = warning
			}
			found(is)
		}
		for _, pod := range l.pods {
			taint := f.untolerated(pod.Spec.NodeName, pod.Spec.Tolerations)
			if taint == nil || w.Kind == "Pod" || state.IsStatic(pod) || taint.TimeAdded.IsZero() ||
				pod.CreationTimestamp.Sub(taint.TimeAdded.Time) < boundAnyway {
				continue
			}
			found(finding{
				object: w.object, pods: []string{pod.Name}, nodes: []string{pod.Spec.NodeName},
				message: fmt.Sprintf("Its pods are created on {some nodes} although they do not tolerate taint %s, which was added before, and are evicted again and again: its template names the node, or its pods have a scheduler that ignores taints.",
					taints.Format(*taint)),
			})
		}
	}
}

// untolerated returns the first NoExecute taint of a node that no toleration matches, or nil.
func (f *facts) untolerated(node string, tolerations []corev1.Toleration) *corev1.Taint {
	on := f.nodes[node]
	if on == nil {
		return nil
	}
	for _, taint := range taints.NoExecute(on.Spec.Taints) {
		if first(tolerations, taint) == nil {
			return &taint
		}
	}
	return nil
}
