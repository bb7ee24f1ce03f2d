// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says what the taints of a node, its tolerations and EvictionPolicies mean for one pod: whether it
// leaves, when and why, where its tolerations come from, and what would keep it. It is pure.
package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Subject is the input of an explanation: one pod and the objects around it.
type Subject struct {
	Pod *corev1.Pod
	// Node is the pod's node. It is nil if the pod has none or if it could not be read. NodeGone is true if it does not
	// exist.
	Node     *corev1.Node
	NodeGone bool
	// Nodes are all nodes, if the pod is not bound.
	Nodes []*corev1.Node
	Owner *cliv1alpha1.Owner
	// Template is the pod template of the owner, and Newest that of the topmost owner, which a Deployment gives to its
	// next ReplicaSet. Namespace is the pod's namespace. They are nil if they could not be read.
	Template, Newest *state.Template
	Namespace        *corev1.Namespace
	// Policies are all EvictionPolicies, or nil if there are none.
	Policies *policies.Set
	state.Evictor
	// Missing says what could not be read, and how that limits the answer.
	Missing []string
	At      time.Time
}

// Explain says whether, when and why a pod leaves its node. For a pod without a node, it says which nodes refuse it.
func Explain(s Subject) *cliv1alpha1.Explanation {
	e := &cliv1alpha1.Explanation{
		TypeMeta:  cliv1alpha1.Type("Explanation"),
		At:        metav1.NewMicroTime(s.At),
		Namespace: s.Pod.Namespace, Name: s.Pod.Name, UID: s.Pod.UID, Node: s.Pod.Spec.NodeName,
		Owner: s.Owner, EvictedBy: s.By(),
		Taints:      []cliv1alpha1.ExplainedTaint{},
		Tolerations: []cliv1alpha1.ExplainedToleration{},
		Notes:       slices.Clone(s.Missing),
	}
	for i := range s.Pod.Spec.Tolerations {
		e.Tolerations = append(e.Tolerations, s.toleration(i))
	}
	node := s.Pod.Spec.NodeName
	switch {
	case state.IsStatic(s.Pod):
		e.State, e.Reason = cliv1alpha1.PodStatic, "A static pod: only its kubelet can stop it."
	case s.Pod.DeletionTimestamp != nil:
		e.State = cliv1alpha1.PodTerminating
		s.explainTerminating(e)
	case s.NodeGone:
		e.State = cliv1alpha1.PodNodeGone
		e.Reason = fmt.Sprintf("Node %s no longer exists, so pod garbage collection deletes the pod.", node)
	case node != "" && s.Node == nil:
		e.State = cliv1alpha1.PodNodeUnknown
		e.Reason = fmt.Sprintf("Node %s could not be read, so its taints are not known.", node)
	case state.IsFinished(s.Pod):
		e.State = cliv1alpha1.PodFinished
	case node == "":
		e.State = cliv1alpha1.PodPending
		s.explainPending(e)
	default:
		e.State = cliv1alpha1.PodBound
	}
	if s.Node != nil {
		s.explainNode(e)
	}
	e.Notes = append(e.Notes, s.writers()...)
	return e
}

// Gone explains a pod that does not exist any more, from the event of its eviction.
func Gone(evicted cliv1alpha1.Eviction, at time.Time) *cliv1alpha1.Explanation {
	return &cliv1alpha1.Explanation{
		TypeMeta: cliv1alpha1.Type("Explanation"), At: metav1.NewMicroTime(at),
		Namespace: evicted.Namespace, Name: evicted.Name, UID: evicted.UID, Node: evicted.Node,
		State: cliv1alpha1.PodGone, Evicted: &evicted, EvictedBy: evicted.By, Taint: evicted.Taint, Due: evicted.Due,
		Taints: []cliv1alpha1.ExplainedTaint{}, Tolerations: []cliv1alpha1.ExplainedToleration{},
	}
}

// explainTerminating says why a pod is being deleted, what it waits for, and what helps.
func (s *Subject) explainTerminating(e *cliv1alpha1.Explanation) {
	t, node := state.TerminationOf(s.Pod, s.Node, s.NodeGone, s.At), s.Pod.Spec.NodeName
	var wait string
	switch t.WaitsFor {
	case cliv1alpha1.WaitsForGarbageCollection:
		wait = fmt.Sprintf("Node %s no longer runs it, so pod garbage collection removes it within about 20 seconds.", node)
	case cliv1alpha1.WaitsForSilentKubelet:
		wait = fmt.Sprintf("It waits for the kubelet of node %s, which is silent: no other program can say that the containers have ended.", node)
		e.Changes = []cliv1alpha1.SmallestChange{
			{What: "Bring node " + node + " back: its kubelet then ends the pod"},
			{
				What:    "If the machine is off, set the taint out-of-service, and pod garbage collection removes the pod",
				Command: fmt.Sprintf("kubectl taint nodes %s %s=nodeshutdown:NoExecute", node, corev1.TaintNodeOutOfService),
			},
			{What: "If the machine will not return, delete the node", Command: "kubectl delete node " + node},
		}
	case cliv1alpha1.WaitsForContainers:
		wait = fmt.Sprintf("Its containers have %s more to stop.", sentence.Between(s.At, t.Until.Time))
	case cliv1alpha1.WaitsForFinalizers:
		wait = "It waits for the " + sentence.Agree(len(t.Finalizers),
			"finalizer "+t.Finalizers[0]+": the controller that set it must remove it.",
			"finalizers "+sentence.Enumerate(t.Finalizers)+": the controllers that set them must remove them.")
	case cliv1alpha1.WaitsForKubelet:
		wait = "It has no node, so the API server removes it soon."
		if node != "" {
			wait = fmt.Sprintf("Its containers should have ended %s ago, but the kubelet of node %s does not say so: its log says why. "+
				"Often a process or a volume hangs.", sentence.Between(t.Until.Time, s.At), node)
		}
	}
	e.Terminating, e.Reason = t, causeOf(state.DisruptionOf(s.Pod))+" "+wait
}

// causes say why a pod is deleted, by the reason of its condition DisruptionTarget. The reasons are upstream's
// (k8s.io/api/core/v1, and pkg/controller/podgc).
var causes = map[string]string{
	"EvictionByEvictionAPI":               "A client evicted it through the Eviction API, as kubectl drain does.",
	corev1.PodReasonPreemptionByScheduler: "The scheduler preempted it for a pod of higher priority.",
	"DeletionByPodGC":                     "Pod garbage collection deletes it, because its node is gone or out of service.",
	corev1.PodReasonTerminationByKubelet:  "Its kubelet ended it, because the node shuts down or lacks resources.",
}

// causeOf says why a pod is deleted, according to its condition DisruptionTarget, which may be nil.
func causeOf(c *corev1.PodCondition) string {
	if c == nil {
		return "No condition of the pod says why."
	}
	switch v1alpha1.MarkerOf(c) {
	case v1alpha1.MarkedByTaintkeeper:
		return "Taintkeeper evicted it because of a NoExecute taint."
	case v1alpha1.MarkedByBuiltIn:
		return "kube-controller-manager evicted it because of a NoExecute taint."
	}
	if cause := causes[c.Reason]; cause != "" {
		return cause
	}
	return fmt.Sprintf("The reason is %s: %s.", c.Reason, c.Message)
}
