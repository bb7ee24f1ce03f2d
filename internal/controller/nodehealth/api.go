// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// api makes the calls about nodes and pods.
type api struct {
	client  kubernetes.Interface
	limiter *rate.Limiter // nil for no limit
}

// token waits for a token of the rate limit.
func (a api) token(ctx context.Context) error { return apicall.Token(ctx, a.limiter) }

// readNode reads a node live. The API server has told the caller that it changed.
func (a api) readNode(ctx context.Context, name string) (*corev1.Node, error) {
	if err := a.token(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return a.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// patchConditions writes conditions of a node, with the precondition that the node has not changed since it was read,
// and returns the patched node. The caller has waited for the token.
func (a api) patchConditions(
	ctx context.Context, read *corev1.Node, conditions []corev1.NodeCondition,
) (*corev1.Node, error) {
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return apicall.PatchNodeConditions(ctx, a.client, read, conditions)
}

// patchTaints writes the taints and labels of a node in one call, with the same precondition. The caller has waited for
// the token.
func (a api) patchTaints(ctx context.Context, read *corev1.Node, edit apicall.NodeEdit) (*corev1.Node, error) {
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return apicall.PatchTaints(ctx, a.client, read, edit, metav1.PatchOptions{})
}

// patchPodNotReady sets the condition Ready of exactly this pod to False, and keeps its reason.
func (a api) patchPodNotReady(ctx context.Context, pod *podcache.Pod, at time.Time) error {
	if err := a.token(ctx); err != nil {
		return err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	exactly := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	_, err := apicall.PatchPodCondition(ctx, a.client, exactly, map[string]any{
		"type": corev1.PodReady, "status": corev1.ConditionFalse, "lastTransitionTime": metav1.NewTime(at),
	})
	return err
}
