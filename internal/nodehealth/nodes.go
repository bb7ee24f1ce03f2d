// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/nodecache"
)

// nodes follows the cache of nodes.
type nodes struct{ cache *nodecache.Cache }

// newNodes calls changed with every node that came, went or changed in what matters here; what is new
// and not part of a first list is announced to came and went, too.
func newNodes(from *nodecache.Cache, probes *probes, see observers) *nodes {
	from.Subscribe(func(change nodecache.Change) {
		if change.After == nil {
			gone := change.Before.Node
			probes.forgetNode(gone.Name)
			see.changed(gone.Name)
			see.went(gone)
			return
		}
		node := change.After.Node
		probes.heartbeat(node, time.Now())
		if change.Before == nil || concerns(change.Before.Node, node) {
			see.changed(node.Name)
		}
		if change.Before == nil && !change.Initial {
			see.came(node)
		}
	})
	return &nodes{cache: from}
}

// observers are told what becomes of nodes.
type observers struct {
	changed    func(name string)
	came, went func(node *corev1.Node)
}

// get returns a node. It must not be modified.
func (n *nodes) get(name string) (*corev1.Node, bool) {
	known, ok := n.cache.Get(name)
	if !ok {
		return nil, false
	}
	return known.Node, true
}

// all returns every node. They must not be modified.
func (n *nodes) all() []*corev1.Node {
	records := n.cache.All()
	all := make([]*corev1.Node, 0, len(records))
	for _, known := range records {
		all = append(all, known.Node)
	}
	return all
}

// concerns reports whether a change of a node can change its assessment. A heartbeat alone does not.
func concerns(before, after *corev1.Node) bool {
	return before.UID != after.UID ||
		before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!apiequality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		before.Annotations[v1alpha1.OwnedAnnotation] != after.Annotations[v1alpha1.OwnedAnnotation] ||
		!apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, func(a, b corev1.NodeCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
		})
}
