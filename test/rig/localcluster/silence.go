// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The arguments of `kubectl label node <names>` by which a node of kwok's falls silent, and by which it comes back.
const (
	SilenceLabel = manageNodeKey + "-"
	ResumeLabel  = manageNodeKey + "=" + manageNodeValue
)

// SilenceNodes makes nodes of kwok's fall silent, as if their kubelets had lost the network: their leases are no longer
// renewed, their status and that of their pods stays as it is, and a pod that is deleted keeps terminating. It returns
// when the API server knows; a renewal that is on its way may still come.
func (c *Cluster) SilenceNodes(ctx context.Context, names ...string) error {
	return c.labelNodes(ctx, nil, names)
}

// ResumeNodes is the way back from [Cluster.SilenceNodes]: the leases are renewed, the nodes ready, and the pods that
// were deleted meanwhile go.
func (c *Cluster) ResumeNodes(ctx context.Context, names ...string) error {
	return c.labelNodes(ctx, manageNodeValue, names)
}

// labelNodes sets the label by which kwok knows its nodes; nil takes it away.
func (c *Cluster) labelNodes(ctx context.Context, value any, names []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{manageNodeKey: value}}})
	if err != nil {
		return fmt.Errorf("write down the label of kwok's nodes: %w", err)
	}
	specs := make([]NodeSpec, len(names))
	for i, name := range names {
		specs[i].Name = name
	}
	err = forEach(ctx, specs, func(ctx context.Context, spec NodeSpec) error {
		_, err := c.client.CoreV1().Nodes().Patch(ctx, spec.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("label the nodes that kwok plays: %w", err)
	}
	return nil
}
