// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// cluster is the state of a cluster, including its kubelets, and how it changes. It knows no clock and no client: the
// world puts an API in front of it, the models compute with it. Objects are never modified, only replaced.
type cluster struct {
	nodes    map[string]*corev1.Node
	leases   map[string]*coordinationv1.Lease
	kubelets map[string]*kubelet
	version  int

	// These are told of every change; before is nil for what came, after for what went.
	nodeChanged  func(before, after *corev1.Node)
	leaseChanged func(before, after *coordinationv1.Lease)
}

// kubelet is what the kubelet of a node knows.
type kubelet struct {
	silent   bool
	posts    bool // its status; otherwise it only renews its lease
	statuses map[corev1.NodeConditionType]corev1.ConditionStatus
}

// kubeletConditions are the conditions that a kubelet posts.
var kubeletConditions = []corev1.NodeConditionType{
	corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady,
}

func newCluster() *cluster {
	return &cluster{
		nodes:        map[string]*corev1.Node{},
		leases:       map[string]*coordinationv1.Lease{},
		kubelets:     map[string]*kubelet{},
		nodeChanged:  func(_, _ *corev1.Node) {},
		leaseChanged: func(_, _ *coordinationv1.Lease) {},
	}
}

// begin adds the nodes that are there from the beginning.
func (c *cluster) begin(h *history) {
	for _, spec := range h.Nodes {
		c.add(spec, 0)
	}
}

// happen lets an occasion happen. A start or a restart does nothing to the cluster.
func (c *cluster) happen(o occasion) {
	switch {
	case o.renews != "":
		if kubelet := c.kubelets[o.renews]; kubelet != nil && !kubelet.silent {
			c.renew(o.renews, o.at)
		}
	case o.posts != "":
		if kubelet := c.kubelets[o.posts]; kubelet != nil && !kubelet.silent && kubelet.posts {
			c.post(o.posts, o.at)
		}
	case o.step != nil:
		c.apply(*o.step)
	}
}

func (c *cluster) apply(s step) {
	switch do := s.Do.(type) {
	case fall:
		c.silence(do.Nodes)
	case resume:
		c.resume(do.Node, s.At)
	case ready:
		c.know(do.Node, corev1.NodeReady, do.Status, s.At)
	case pressure:
		c.know(do.Node, do.Type, do.Status, s.At)
	case network:
		c.edit(do.Node, func(node *corev1.Node) {
			node.Status.Conditions = withCondition(node.Status.Conditions, posted(corev1.NodeNetworkUnavailable, do.Status, s.At))
		})
	case cordon:
		c.edit(do.Node, func(node *corev1.Node) { node.Spec.Unschedulable = do.Cordoned })
	case taint:
		c.edit(do.Node, func(node *corev1.Node) {
			node.Spec.Taints = withTaint(node.Spec.Taints, corev1.Taint{Key: do.Key, Effect: do.Effect})
		})
	case untaint:
		c.edit(do.Node, func(node *corev1.Node) {
			node.Spec.Taints = withoutTaint(node.Spec.Taints, do.Key, do.Effect)
		})
	case touch:
		c.touch(do.Node, s.At)
	case addNode:
		c.add(do.Node, s.At)
	case removeNode:
		delete(c.kubelets, do.Node)
		c.putLease(do.Node, nil)
		c.put(do.Node, nil)
	}
}

func (c *cluster) silence(names []string) {
	for _, name := range names {
		if kubelet := c.kubelets[name]; kubelet != nil {
			kubelet.silent = true
		}
	}
}

func (c *cluster) resume(name string, at time.Duration) {
	if kubelet := c.kubelets[name]; kubelet != nil {
		kubelet.silent, kubelet.posts = false, true
		c.renew(name, at)
		c.post(name, at)
	}
}

// know tells a kubelet something about its node, which it posts if it is not silent.
func (c *cluster) know(name string, kind corev1.NodeConditionType, status corev1.ConditionStatus, at time.Duration) {
	kubelet := c.kubelets[name]
	if kubelet == nil || kubelet.silent {
		return
	}
	kubelet.posts = true
	kubelet.statuses[kind] = status
	c.post(name, at)
}

func (c *cluster) add(spec nodeSpec, at time.Duration) {
	if c.nodes[spec.Name] != nil {
		return
	}
	labels := map[string]string{corev1.LabelTopologyRegion: "r", corev1.LabelTopologyZone: spec.Zone}
	if spec.Excluded {
		labels["node.kubernetes.io/exclude-disruption"] = ""
	}
	kubelet := &kubelet{
		silent: spec.Absent, posts: !spec.Mute && !spec.Absent,
		statuses: map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeMemoryPressure: corev1.ConditionFalse, corev1.NodeDiskPressure: corev1.ConditionFalse,
			corev1.NodePIDPressure: corev1.ConditionFalse, corev1.NodeReady: corev1.ConditionTrue,
		},
	}
	c.kubelets[spec.Name] = kubelet
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: spec.Name, UID: types.UID(fmt.Sprintf("%s-%d", spec.Name, at/ms)),
			CreationTimestamp: instant(spec.Created), Labels: labels,
		},
		Spec: corev1.NodeSpec{Unschedulable: spec.Cordoned},
	}
	if kubelet.posts { // a kubelet registers its node with its status
		kubelet.write(node, at)
	}
	c.put(spec.Name, node)
	if !spec.Absent {
		c.renew(spec.Name, at)
	}
}

// write puts the conditions that a kubelet posts into its node.
func (k *kubelet) write(node *corev1.Node, at time.Duration) {
	for _, kind := range kubeletConditions {
		node.Status.Conditions = withCondition(node.Status.Conditions, posted(kind, k.statuses[kind], at))
	}
}

func (c *cluster) renew(name string, at time.Duration) {
	c.putLease(name, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: arena.Epoch.Add(at)}},
	})
}

// touch writes to a lease without renewing it.
func (c *cluster) touch(name string, at time.Duration) {
	lease := c.leases[name]
	if lease == nil {
		return
	}
	c.putLease(name, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: lease.Namespace, Name: name, Annotations: map[string]string{"example.com/touched": at.String()},
		},
		Spec: lease.Spec,
	})
}

func (c *cluster) post(name string, at time.Duration) {
	c.edit(name, func(node *corev1.Node) { c.kubelets[name].write(node, at) })
}

func posted(kind corev1.NodeConditionType, status corev1.ConditionStatus, at time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: instant(at), LastTransitionTime: instant(at)}
}

// withCondition puts a condition into the place of the one of its type, whose transition time it
// keeps if the status is the same.
func withCondition(current []corev1.NodeCondition, c corev1.NodeCondition) []corev1.NodeCondition {
	next := slices.Clone(current)
	i := slices.IndexFunc(next, func(other corev1.NodeCondition) bool { return other.Type == c.Type })
	if i < 0 {
		return append(next, c)
	}
	if next[i].Status == c.Status {
		c.LastTransitionTime = next[i].LastTransitionTime
	}
	next[i] = c
	return next
}

func withTaint(current []corev1.Taint, t corev1.Taint) []corev1.Taint {
	return append(withoutTaint(current, t.Key, t.Effect), t)
}

func withoutTaint(current []corev1.Taint, key string, effect corev1.TaintEffect) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(current), func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

// edit edits a copy of a node, if there is one. Slices must be replaced, not written into.
func (c *cluster) edit(name string, change func(*corev1.Node)) {
	before := c.nodes[name]
	if before == nil {
		return
	}
	after := *before
	change(&after)
	c.put(name, &after)
}

func (c *cluster) put(name string, after *corev1.Node) {
	arena.Put(c.nodes, &c.version, name, after, c.nodeChanged)
}

func (c *cluster) putLease(name string, after *coordinationv1.Lease) {
	arena.Put(c.leases, &c.version, name, after, c.leaseChanged)
}

// names returns the names of the nodes in alphabetical order.
func (c *cluster) names() []string { return slices.Sorted(maps.Keys(c.nodes)) }

// condition returns the condition of a node with a type, nil if there is none.
func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &node.Status.Conditions[i]
}

func hasTaint(node *corev1.Node, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}
