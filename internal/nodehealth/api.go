// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
)

// api makes the calls about nodes and pods.
type api struct {
	client  kubernetes.Interface
	limiter *rate.Limiter // nil: no limit
}

// turn waits until the rate limit allows one more call.
func (a api) turn(ctx context.Context) error { return apicall.Turn(ctx, a.limiter) }

// readNode reads a node live. Whoever calls it was told by the API server that the node is not as it was.
func (a api) readNode(ctx context.Context, name string) (*corev1.Node, error) {
	if err := a.turn(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return a.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// patchConditions writes conditions of a node, on the condition that nobody has changed the node since it was read, and returns the
// node as it is then. Whoever calls it has waited for the turn.
func (a api) patchConditions(ctx context.Context, read *corev1.Node, conditions []corev1.NodeCondition) (*corev1.Node, error) {
	return a.patchNode(ctx, read, types.StrategicMergePatchType, map[string]any{
		"metadata": locked(read),
		"status":   map[string]any{"conditions": conditions},
	}, "status")
}

// patchTaints writes the taints of a node and sets labels, if there are any, in one call and on the same condition. Whoever calls
// it has waited for the turn.
func (a api) patchTaints(ctx context.Context, read *corev1.Node, taints []corev1.Taint, labels map[string]string) (*corev1.Node, error) {
	metadata := locked(read)
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	return a.patchNode(ctx, read, types.MergePatchType, map[string]any{
		"metadata": metadata,
		"spec":     map[string]any{"taints": taints},
	})
}

func locked(read *corev1.Node) map[string]any {
	return map[string]any{"uid": read.UID, "resourceVersion": read.ResourceVersion}
}

func (a api) patchNode(ctx context.Context, read *corev1.Node, kind types.PatchType, change map[string]any, subresources ...string) (*corev1.Node, error) {
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("write down a patch of node %s: %w", read.Name, err)
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return a.client.CoreV1().Nodes().Patch(ctx, read.Name, kind, patch, metav1.PatchOptions{}, subresources...)
}

// patchPodNotReady sets the condition Ready of exactly this pod to False, and keeps its reason.
func (a api) patchPodNotReady(ctx context.Context, pod *podcache.Pod, at time.Time) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": corev1.PodReady, "status": corev1.ConditionFalse, "lastTransitionTime": metav1.NewTime(at),
		}}},
	})
	if err != nil {
		return fmt.Errorf("write down a patch of pod %s: %w", pod.Key(), err)
	}
	if err := a.turn(ctx); err != nil {
		return err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	_, err = a.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
