// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// explainTerminating says why a pod is being deleted, what it waits for, and what helps.
func (s *Subject) explainTerminating(e *cliv1alpha1.Explanation) {
	t := state.TerminationOf(s.Pod, s.Node, s.NodeGone, s.At)
	why := "No condition of the pod says why."
	if c := state.DisruptionOf(s.Pod); c != nil {
		why = causeOf(c)
	}
	e.Terminating = t
	e.Reason = why + " " + s.wait(t, e)
}

// causeOf says why a pod is deleted, according to its condition DisruptionTarget. Its reasons are upstream's
// (k8s.io/api/core/v1, and pkg/controller/podgc).
func causeOf(c *corev1.PodCondition) string {
	switch v1alpha1.MarkerOf(c) {
	case v1alpha1.MarkedByTaintkeeper:
		return "Taintkeeper evicted it because of a NoExecute taint."
	case v1alpha1.MarkedByBuiltIn:
		return "kube-controller-manager evicted it because of a NoExecute taint."
	}
	switch c.Reason {
	case "EvictionByEvictionAPI":
		return "A client evicted it through the Eviction API, as kubectl drain does."
	case corev1.PodReasonPreemptionByScheduler:
		return "The scheduler preempted it for a pod of higher priority."
	case "DeletionByPodGC":
		return "Pod garbage collection deletes it, because its node is gone or out of service."
	case corev1.PodReasonTerminationByKubelet:
		return "Its kubelet ended it, because the node shuts down or lacks resources."
	}
	return fmt.Sprintf("The reason is %s: %s.", c.Reason, c.Message)
}

// wait says in words what a pod waits for, and adds to an explanation what helps.
func (s *Subject) wait(t *cliv1alpha1.Termination, e *cliv1alpha1.Explanation) string {
	node := s.Pod.Spec.NodeName
	help := func(what, command string) {
		e.Changes = append(e.Changes, cliv1alpha1.SmallestChange{What: what, Command: command})
	}
	switch t.WaitsFor {
	case cliv1alpha1.WaitsForGarbageCollection:
		return fmt.Sprintf("Node %s no longer runs it, so pod garbage collection removes it within about 20 seconds.", node)
	case cliv1alpha1.WaitsForSilentKubelet:
		help("Bring node "+node+" back: its kubelet then ends the pod", "")
		help("If the machine is off, set the taint out-of-service, and pod garbage collection removes the pod",
			fmt.Sprintf("kubectl taint nodes %s %s=nodeshutdown:NoExecute", node, corev1.TaintNodeOutOfService))
		help("If the machine will not return, delete the node", "kubectl delete node "+node)
		return fmt.Sprintf("It waits for the kubelet of node %s, which is silent: no other program can say that the containers have ended.", node)
	case cliv1alpha1.WaitsForContainers:
		return fmt.Sprintf("Its containers have %s more to stop.", sentence.Between(s.At, t.Until.Time))
	case cliv1alpha1.WaitsForFinalizers:
		return "It waits for the " + sentence.Agree(len(t.Finalizers),
			"finalizer "+t.Finalizers[0]+": the controller that set it must remove it.",
			"finalizers "+sentence.Enumerate(t.Finalizers)+": the controllers that set them must remove them.")
	}
	if node == "" {
		return "It has no node, so the API server removes it soon."
	}
	return fmt.Sprintf("Its containers should have ended %s ago, but the kubelet of node %s does not say so: its log says why. "+
		"Often a process or a volume hangs.", sentence.Between(t.Until.Time, s.At), node)
}

// Gone explains a pod that does not exist any more, from the event of its eviction.
func Gone(evicted cliv1alpha1.Eviction, at time.Time) *cliv1alpha1.Explanation {
	return &cliv1alpha1.Explanation{
		TypeMeta: cliv1alpha1.Type("Explanation"), At: metav1.NewMicroTime(at), Namespace: evicted.Namespace, Name: evicted.Name, UID: evicted.UID, Node: evicted.Node,
		State: cliv1alpha1.PodGone, Evicted: &evicted, EvictedBy: evicted.By, Taint: evicted.Taint, Due: evicted.Due,
		Taints: []cliv1alpha1.ExplainedTaint{}, Tolerations: []cliv1alpha1.ExplainedToleration{},
	}
}
