// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// Region is the region of every node that has a zone.
const Region = "local"

// nodeParallelism is how many nodes are created at the same time.
const nodeParallelism = 32

// NodeSpec describes a node to add.
type NodeSpec struct {
	// Name of the node, also its hostname label.
	Name string
	// Zone is the node's topology.kubernetes.io/zone; without one the node has no region either.
	Zone string
	// Labels are added to the node's, and take precedence.
	Labels map[string]string
}

// AddNodes creates nodes that kwok plays, and returns once each is Ready, has a Lease in kube-node-lease, and has lost
// the taint that new nodes get.
func (c *Cluster) AddNodes(ctx context.Context, nodes ...NodeSpec) error {
	if !c.cfg.has(Kwok) {
		return errors.New("nodes need kwok: remove it from Config.Without")
	}
	err := forEach(ctx, nodes, func(ctx context.Context, spec NodeSpec) error {
		_, err := c.client.CoreV1().Nodes().Create(ctx, spec.node(), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create nodes: %w", err)
	}
	err = forEach(ctx, nodes, func(ctx context.Context, spec NodeSpec) error {
		err := await.Poll(ctx, func(ctx context.Context) error { return c.removeNotReady(ctx, spec.Name) })
		if err != nil {
			return fmt.Errorf("node %s is not as it should be: %w", spec.Name, err)
		}
		return nil
	})
	if err != nil {
		return c.failure(c.components.get(Kwok), err)
	}
	c.logf("%d nodes are ready", len(nodes))
	return nil
}

// removeNotReady removes the not-ready taint that the admission plugin TaintNodesByCondition sets on every new node. It
// fails while the node is not ready or has no Lease. The node-lifecycle controller removes the taint, too, at a time of
// its own, unless a test runs without it.
func (c *Cluster) removeNotReady(ctx context.Context, name string) error {
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if _, err := leases.Get(ctx, name, metav1.GetOptions{}); err != nil {
		return err
	}
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ready := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if !slices.ContainsFunc(node.Status.Conditions, ready) {
		return errors.New("it is not ready")
	}
	before := len(node.Spec.Taints)
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeNotReady && taint.Effect == corev1.TaintEffectNoSchedule
	})
	if len(node.Spec.Taints) == before {
		return nil
	}
	_, err = c.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}

func (s NodeSpec) node() *corev1.Node {
	labels := map[string]string{
		manageNodeKey:          manageNodeValue,
		corev1.LabelHostname:   s.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	if s.Zone != "" {
		labels[corev1.LabelTopologyZone] = s.Zone
		labels[corev1.LabelTopologyRegion] = Region
	}
	maps.Copy(labels, s.Labels)
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: labels}}
}

// forEach calls a function for all nodes, nodeParallelism at a time, and returns the first error.
func forEach[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeParallelism)
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// The arguments of `kubectl label node <names>` with which a node of kwok's falls silent and comes back.
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

// ResumeNodes undoes [Cluster.SilenceNodes]: the leases are renewed, the nodes become ready, and pods that were deleted
// meanwhile end.
func (c *Cluster) ResumeNodes(ctx context.Context, names ...string) error {
	return c.labelNodes(ctx, manageNodeValue, names)
}

// labelNodes sets the label by which kwok knows its nodes; nil removes it.
func (c *Cluster) labelNodes(ctx context.Context, value any, names []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{manageNodeKey: value}}})
	if err != nil {
		return fmt.Errorf("encode the label of kwok's nodes: %w", err)
	}
	err = forEach(ctx, names, func(ctx context.Context, name string) error {
		_, err := c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("label the nodes that kwok simulates: %w", err)
	}
	return nil
}
