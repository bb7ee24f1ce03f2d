// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// taintNode does what `kubectl taint node <name> <specs>` does. It returns the instant just before the change was sent,
// so that nothing can have followed from it earlier, and the taints of the node after it.
func taintNode(ctx context.Context, client kubernetes.Interface, name string, specs ...string,
) (time.Time, []corev1.Taint, error) {
	edit, err := taints.ParseEdit(specs...)
	if err != nil {
		return time.Time{}, nil, err
	}
	took, after, err := scene.EditTaints(ctx, client, name, func(current []corev1.Taint) ([]corev1.Taint, error) {
		return edit.Apply(current, taints.KeepExisting)
	})
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("taint node %s with %s: %w", name, strings.Join(specs, " "), err)
	}
	return took.From, after, nil
}

// untaintNode takes away all taints of a node.
func untaintNode(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := scene.ChangeTaints(ctx, client, name, func([]corev1.Taint) []corev1.Taint { return nil })
	if err != nil {
		return fmt.Errorf("take all taints from node %s: %w", name, err)
	}
	return nil
}
