// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// nodes watches the nodes, of which it keeps what an assessment needs.
type nodes struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
}

// newNodes calls changed with every node that came, went or changed in what matters here; what is new
// and not part of a first list is announced to came and went, too.
func newNodes(client kubernetes.Interface, probes *probes, see observers) (*nodes, error) {
	n := &nodes{informer: informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()}
	if err := n.informer.SetTransform(slim); err != nil {
		return nil, err
	}
	handler, err := n.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, first bool) {
			node := object.(*corev1.Node)
			probes.heartbeat(node, time.Now())
			see.changed(node.Name)
			if !first {
				see.came(node)
			}
		},
		UpdateFunc: func(before, after any) {
			node := after.(*corev1.Node)
			probes.heartbeat(node, time.Now())
			if concerns(before.(*corev1.Node), node) {
				see.changed(node.Name)
			}
		},
		DeleteFunc: func(object any) {
			name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			if err != nil {
				return
			}
			probes.forgetNode(name)
			see.changed(name)
			if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok { // the watch was interrupted
				object = unseen.Obj
			}
			if node, ok := object.(*corev1.Node); ok {
				see.went(node)
			}
		},
	})
	n.handler = handler
	return n, err
}

// observers are told what becomes of nodes.
type observers struct {
	changed    func(name string)
	came, went func(node *corev1.Node)
}

// get returns a node. It must not be modified.
func (n *nodes) get(name string) (*corev1.Node, bool) {
	object, exists, err := n.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil, false
	}
	return object.(*corev1.Node), true
}

// all returns every node. They must not be modified.
func (n *nodes) all() []*corev1.Node {
	objects := n.informer.GetStore().List()
	all := make([]*corev1.Node, 0, len(objects))
	for _, object := range objects {
		all = append(all, object.(*corev1.Node))
	}
	return all
}

// concerns reports whether a change of a node can change its assessment. A heartbeat alone does not.
func concerns(before, after *corev1.Node) bool {
	return before.UID != after.UID ||
		before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!apiequality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		!apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, func(a, b corev1.NodeCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
		})
}

// slim drops everything of a node that plays no part here before it is stored. A node of a first list is
// brought here twice.
func slim(object any) (any, error) {
	full, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
			CreationTimestamp: full.CreationTimestamp, Labels: full.Labels,
		},
		Spec: corev1.NodeSpec{Taints: full.Spec.Taints, Unschedulable: full.Spec.Unschedulable},
	}
	for _, c := range full.Status.Conditions {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: c.Type, Status: c.Status, LastHeartbeatTime: c.LastHeartbeatTime, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return node, nil
}
