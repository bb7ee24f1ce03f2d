// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/taints"
)

// taintNode does what `kubectl taint node <name> <specs>` does. It returns the instant just before the change was sent,
// so that nothing can have followed from it earlier, and the taints of the node after it.
func taintNode(ctx context.Context, client kubernetes.Interface, name string, specs ...string) (time.Time, []corev1.Taint, error) {
	edit, err := taints.ParseEdit(specs...)
	if err != nil {
		return time.Time{}, nil, err
	}
	at, after, err := changeTaints(ctx, client, name, func(current []corev1.Taint) ([]corev1.Taint, error) {
		return edit.Apply(current, taints.KeepExisting)
	})
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("taint node %s with %s: %w", name, strings.Join(specs, " "), err)
	}
	return at, after, nil
}

// untaintNode takes away all taints of a node.
func untaintNode(ctx context.Context, client kubernetes.Interface, name string) error {
	_, _, err := changeTaints(ctx, client, name, func([]corev1.Taint) ([]corev1.Taint, error) { return nil, nil })
	if err != nil {
		return fmt.Errorf("take all taints from node %s: %w", name, err)
	}
	return nil
}

// changeTaints reads a node and writes its taints, under an optimistic lock: the list is replaced as a whole, and must not
// undo what somebody else, such as Taintkeeper itself, has written in between.
func changeTaints(ctx context.Context, client kubernetes.Interface, name string, change func([]corev1.Taint) ([]corev1.Taint, error)) (at time.Time, after []corev1.Taint, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		wanted, err := change(node.Spec.Taints)
		if err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
			"spec":     map[string]any{"taints": wanted},
		})
		if err != nil {
			return err
		}
		at = time.Now()
		node, err = client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		after = node.Spec.Taints
		return nil
	})
	return at, after, err
}
