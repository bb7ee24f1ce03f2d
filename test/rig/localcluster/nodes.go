// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// Region is the region of every node that has a zone.
const Region = "local"

const (
	// nodeParallelism is how many nodes are created at the same time.
	nodeParallelism = 32
	// nodePeriod is how often all nodes are looked at while they come up; the answer comes from the API server's cache.
	nodePeriod = 200 * time.Millisecond
	// nodesTimeout is how long the nodes may take, however many they are.
	nodesTimeout = 5 * time.Minute
)

// NodeSpec describes a node to add.
type NodeSpec struct {
	// Name of the node, also its hostname label.
	Name string
	// Zone is the node's topology.kubernetes.io/zone; without one the node has no region either.
	Zone string
	// Labels are added to the node's, and win over them.
	Labels map[string]string
}

// AddNodes creates nodes that kwok plays, and returns once each is Ready, has a Lease in kube-node-lease and is rid of
// the taint that new nodes get.
func (c *Cluster) AddNodes(ctx context.Context, nodes ...NodeSpec) error {
	if !c.cfg.has(Kwok) {
		return errors.New("nodes need kwok: remove it from Config.Without")
	}
	client := c.client
	err := forEach(ctx, nodes, func(ctx context.Context, spec NodeSpec) error {
		_, err := client.CoreV1().Nodes().Create(ctx, spec.node(), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create nodes: %w", err)
	}
	if err := c.waitNodes(ctx, client, nodes); err != nil {
		return err
	}
	c.logf("%d nodes are ready", len(nodes))
	return untaintNew(ctx, client, nodes)
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

// waitNodes returns once all nodes are Ready and have a Lease.
func (c *Cluster) waitNodes(ctx context.Context, client kubernetes.Interface, nodes []NodeSpec) error {
	waiting := sets.New[string]()
	for _, spec := range nodes {
		waiting.Insert(spec.Name)
	}
	err := wait.PollUntilContextTimeout(ctx, nodePeriod, nodesTimeout, true, func(ctx context.Context) (bool, error) {
		up, err := nodesUp(ctx, client)
		waiting = waiting.Difference(up)
		return waiting.Len() == 0, err
	})
	if err != nil {
		names := sets.List(waiting)
		cause := fmt.Errorf("%d of %d nodes are not ready, among them %s: %w",
			len(names), len(nodes), strings.Join(names[:min(3, len(names))], ", "), err)
		return c.failure(c.components.get(Kwok), cause)
	}
	return nil
}

// nodesUp returns the names of the nodes that are Ready and have a Lease.
func nodesUp(ctx context.Context, client kubernetes.Interface) (sets.Set[string], error) {
	fromCache := metav1.ListOptions{ResourceVersion: "0"}
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, fromCache)
	if err != nil {
		return nil, fmt.Errorf("list the leases of nodes: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, fromCache)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	leased := sets.New[string]()
	for i := range leases.Items {
		leased.Insert(leases.Items[i].Name)
	}
	up := sets.New[string]()
	for i := range nodes.Items {
		if node := &nodes.Items[i]; nodeReady(node) && leased.Has(node.Name) {
			up.Insert(node.Name)
		}
	}
	return up, nil
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

// untaintNew takes away the not-ready taint that the admission plugin TaintNodesByCondition sets on every new node. The
// node-lifecycle controller does so too, unless a test runs without it, and at a time of its own.
func untaintNew(ctx context.Context, client kubernetes.Interface, nodes []NodeSpec) error {
	err := forEach(ctx, nodes, func(ctx context.Context, spec NodeSpec) error {
		return retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
			return untaint(ctx, client, spec.Name)
		})
	})
	if err != nil {
		return fmt.Errorf("take the not-ready taint from new nodes: %w", err)
	}
	return nil
}

func untaint(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(node.Spec.Taints, isNewNodeTaint) {
		return nil
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isNewNodeTaint)
	_, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}

func isNewNodeTaint(taint corev1.Taint) bool {
	return taint.Key == corev1.TaintNodeNotReady && taint.Effect == corev1.TaintEffectNoSchedule
}

// forEach does something to all nodes, nodeParallelism at a time, and returns the first error.
func forEach(ctx context.Context, nodes []NodeSpec, do func(context.Context, NodeSpec) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeParallelism)
	for _, spec := range nodes {
		group.Go(func() error { return do(ctx, spec) })
	}
	return group.Wait()
}
