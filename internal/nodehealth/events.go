// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/taintkeeper/taintkeeper/internal/podcache"
)

// eventSource is upstream's, letter for letter.
const eventSource = "node-controller"

// inDryRun ends what is said of what only would be done.
const inDryRun = " (dry run)"

// events writes events on nodes and pods, in the background. Their reasons and messages are upstream's
// (pkg/controller/util/node), but for NoExecuteTaintHeld, which upstream has not.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	suffix      string
}

func newEvents(dryRun bool) *events {
	broadcaster := record.NewBroadcaster()
	suffix := ""
	if dryRun {
		suffix = inDryRun
	}
	return &events{
		suffix:      suffix,
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventSource}),
	}
}

// run sends the events to the API server until the context ends.
func (e *events) run(ctx context.Context, client kubernetes.Interface) {
	e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	<-ctx.Done()
	e.broadcaster.Shutdown()
}

func (e *events) registered(node *corev1.Node) {
	e.recorder.Eventf(nodeReference(node), corev1.EventTypeNormal, "RegisteredNode", "Node %s event: Registered Node %s in Controller", node.Name, node.Name)
}

func (e *events) removed(node *corev1.Node) {
	e.recorder.Eventf(nodeReference(node), corev1.EventTypeNormal, "RemovingNode", "Node %s event: Removing Node %s from Controller", node.Name, node.Name)
}

func (e *events) notReady(node *corev1.Node) {
	e.recorder.Eventf(nodeReference(node), corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
}

func (e *events) podNotReady(pod *podcache.Pod) {
	e.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
}

// held says why a node that is not ready has no NoExecute taint.
func (e *events) held(node *corev1.Node, key string, held Held) {
	e.recorder.Eventf(nodeReference(node), corev1.EventTypeWarning, "NoExecuteTaintHeld", "Taint %s:NoExecute is held back: %s%s", key, held, e.suffix)
}

// deafness says that no node can be called silent, and why; nil: that they can again.
func (e *events) deafness(why error) {
	lease := &corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: corev1.NamespaceNodeLease, Name: OwnLease}
	if why == nil {
		e.recorder.Eventf(lease, corev1.EventTypeNormal, "SilenceKnown", "Nodes can be called silent again%s", e.suffix)
		return
	}
	e.recorder.Eventf(lease, corev1.EventTypeWarning, "SilenceUnknown", "%v%s", why, e.suffix)
}

// String says it in a sentence.
func (h Held) String() string {
	switch {
	case h.AllZones:
		return fmt.Sprintf("every zone is fully disrupted (zone %s: %d of %d nodes not ready), so the control plane is the likelier culprit and no node is tainted", h.Zone, h.NotReady, h.Size)
	case h.Rate == 0:
		return fmt.Sprintf("zone %s has the state %s (%d of %d nodes not ready), and none of its nodes is tainted", h.Zone, h.State, h.NotReady, h.Size)
	}
	return fmt.Sprintf("zone %s has the state %s (%d of %d nodes not ready), and one node of it is tainted every %g s", h.Zone, h.State, h.NotReady, h.Size, 1/h.Rate)
}

func nodeReference(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}
