// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// eventSource is upstream's, letter for letter.
const eventSource = "node-controller"

// events writes events on nodes, on pods and on our own Lease, in the background. The reasons and messages on nodes
// and pods are upstream's (pkg/controller/util/node), except [v1alpha1.EventNodeTaintHeld], which upstream lacks.
type events struct {
	*apicall.Recorder

	lease  string // the name of our own
	suffix string
}

func newEvents(dryRun bool, client kubernetes.Interface) *events {
	suffix := ""
	if dryRun {
		suffix = v1alpha1.DryRunSuffix
	}
	return &events{Recorder: apicall.NewRecorder(eventSource, client), lease: ownLease(dryRun), suffix: suffix}
}

func (e *events) registered(node *corev1.Node) {
	e.Eventf(nodeReference(node), corev1.EventTypeNormal, "RegisteredNode",
		"Node %s event: Registered Node %s in Controller", node.Name, node.Name)
}

func (e *events) removed(node *corev1.Node) {
	e.Eventf(nodeReference(node), corev1.EventTypeNormal, "RemovingNode",
		"Node %s event: Removing Node %s from Controller", node.Name, node.Name)
}

func (e *events) notReady(node *corev1.Node) {
	e.Eventf(nodeReference(node), corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
}

func (e *events) podNotReady(pod *podcache.Pod) {
	reference := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
	}
	e.OfPod(apicall.PodEvent{
		Pod: reference, Node: pod.Node, Type: corev1.EventTypeWarning, Reason: "NodeNotReady",
	}, "Node is not ready")
}

// held records why a node that is not ready has no NoExecute taint.
func (e *events) held(node *corev1.Node, key string, held readiness.Held) {
	e.Eventf(nodeReference(node), corev1.EventTypeWarning, v1alpha1.EventNodeTaintHeld,
		"Taint %s:NoExecute is held back: %s%s", key, held, e.suffix)
}

// blindness records why no node can be considered silent, or, with nil, that nodes can be again.
func (e *events) blindness(why error) {
	lease := &corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: corev1.NamespaceNodeLease, Name: e.lease}
	if why == nil {
		e.Eventf(lease, corev1.EventTypeNormal, v1alpha1.EventSilenceKnown, "Node health is no longer blind: its own Lease renewals arrive on the watch again%s", e.suffix)
		return
	}
	e.Eventf(lease, corev1.EventTypeWarning, v1alpha1.EventSilenceUnknown, "%v%s", why, e.suffix)
}

func nodeReference(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}
