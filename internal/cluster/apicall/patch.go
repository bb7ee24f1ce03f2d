// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// NodeEdit is what [PatchTaints] changes on a node.
type NodeEdit struct {
	// Taints are all taints that the node should have, because the API server replaces the whole list.
	Taints []corev1.Taint
	// Labels are set in the same call; a nil value removes a label. Other labels stay.
	Labels map[string]*string
}

// PatchTaints writes the taints of a node and labels that belong to them, with the precondition that the node has not
// changed since it was read. If it has, the list would undo the other change, and the API server answers with a
// conflict. It returns the patched node. The call is bounded and goes on when the process ends; see [InFlight].
func PatchTaints(
	ctx context.Context, client kubernetes.Interface, read *corev1.Node, edit NodeEdit, options metav1.PatchOptions,
) (*corev1.Node, error) {
	return patchNode(ctx, client, read, types.MergePatchType, change{
		Metadata: metadata{UID: read.UID, ResourceVersion: &read.ResourceVersion, Labels: edit.Labels},
		Spec:     map[string]any{"taints": edit.Taints},
	}, options)
}

// PatchNodeConditions sets conditions of a node, with the same precondition as [PatchTaints], and returns the patched
// node.
func PatchNodeConditions(
	ctx context.Context, client kubernetes.Interface, read *corev1.Node, conditions []corev1.NodeCondition,
) (*corev1.Node, error) {
	return patchNode(ctx, client, read, types.StrategicMergePatchType, change{
		Metadata: metadata{UID: read.UID, ResourceVersion: &read.ResourceVersion},
		Status:   map[string]any{"conditions": conditions},
	}, metav1.PatchOptions{}, "status")
}

// PatchPodCondition sets a condition of exactly this pod. It must be given the UID: another pod of the same name is not
// patched, see [IsAnotherUID]. If it is given a resourceVersion, too, the pod must not have changed since. It returns
// the patched pod.
func PatchPodCondition(
	ctx context.Context, client kubernetes.Interface, pod metav1.ObjectMeta, condition map[string]any,
) (*corev1.Pod, error) {
	return patchPod(ctx, client, pod, types.StrategicMergePatchType, change{
		Status: map[string]any{"conditions": []any{condition}},
	}, "status")
}

// PatchPodTolerations replaces the tolerations of a pod, with the same preconditions as [PatchPodCondition]. The API
// server allows additions. It returns the patched pod.
func PatchPodTolerations(
	ctx context.Context, client kubernetes.Interface, pod metav1.ObjectMeta, all []corev1.Toleration,
) (*corev1.Pod, error) {
	return patchPod(ctx, client, pod, types.MergePatchType, change{Spec: map[string]any{"tolerations": all}})
}

func patchPod(
	ctx context.Context, client kubernetes.Interface, pod metav1.ObjectMeta,
	kind types.PatchType, change change, subresources ...string,
) (*corev1.Pod, error) {
	change.Metadata.UID = pod.UID
	if pod.ResourceVersion != "" {
		change.Metadata.ResourceVersion = &pod.ResourceVersion
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode a patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	ctx, cancel := InFlight(ctx)
	defer cancel()
	return client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, kind, patch, metav1.PatchOptions{}, subresources...)
}

// change is the body of a patch.
type change struct {
	Metadata metadata       `json:"metadata"`
	Spec     map[string]any `json:"spec,omitempty"`
	Status   map[string]any `json:"status,omitempty"`
}

// metadata identifies the object, and its version, that a patch is for. The API server refuses the patch for any other.
type metadata struct {
	UID             types.UID          `json:"uid"`
	ResourceVersion *string            `json:"resourceVersion,omitempty"`
	Labels          map[string]*string `json:"labels,omitempty"`
}

func patchNode(
	ctx context.Context, client kubernetes.Interface, read *corev1.Node,
	kind types.PatchType, change change, options metav1.PatchOptions, subresources ...string,
) (*corev1.Node, error) {
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode a patch of node %s: %w", read.Name, err)
	}
	ctx, cancel := InFlight(ctx)
	defer cancel()
	return client.CoreV1().Nodes().Patch(ctx, read.Name, kind, patch, options, subresources...)
}
