// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// Node is the record of a node. Records are shared and never modified: a change makes a new one.
//
// The object in it has what somebody reads and nothing else, see [trimmed]. It is Kubernetes' own type because node
// health and the rules decide about a node that they have just read live by the same functions, some of them
// Kubernetes' own.
type Node struct {
	*corev1.Node
	// NoExecute are the node's taints of that effect, in their order.
	NoExecute []Taint
}

// Taint is a taint with the instant at which this process first saw it as it is now: with this key, value, effect and
// timeAdded. After a gap it is seen anew: nobody knows whether it was taken off and set again.
type Taint struct {
	corev1.Taint

	FirstSeen time.Time
}

// Object returns the trimmed object of a record; nil of none.
func (n *Node) Object() *corev1.Node {
	if n == nil {
		return nil
	}
	return n.Node
}

// record makes the record of a node that is seen now, after what is known of it.
func record(object *corev1.Node, change Change, now time.Time) *Node {
	node := &Node{Node: trimmed(object)}
	for _, taint := range taints.NoExecute(node.Spec.Taints) {
		seen := Taint{Taint: taint, FirstSeen: now}
		if known, ok := change.seenBefore(node, taint); ok && known.Before(now) { // the clock may have been set back
			seen.FirstSeen = known
		}
		node.NoExecute = append(node.NoExecute, seen)
	}
	return node
}

// seenBefore returns when a taint was first seen, if the state before had it for certain, too.
func (c Change) seenBefore(node *Node, taint corev1.Taint) (time.Time, bool) {
	if c.Before == nil || c.Gap || c.Before.UID != node.UID {
		return time.Time{}, false
	}
	for _, known := range c.Before.NoExecute {
		if known.MatchTaint(&taint) && known.Value == taint.Value && known.TimeAdded.Equal(taint.TimeAdded) {
			return known.FirstSeen, true
		}
	}
	return time.Time{}, false
}

// same reports whether two records say the same.
func (n *Node) same(other *Node) bool {
	return n.ResourceVersion == other.ResourceVersion && apiequality.Semantic.DeepEqual(n.Node, other.Node)
}

// trimmed returns what is kept of a node. Reasons and messages of conditions are not: whoever writes a condition reads
// the node first.
func trimmed(full *corev1.Node) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
			CreationTimestamp: full.CreationTimestamp, DeletionTimestamp: full.DeletionTimestamp,
			Labels: full.Labels,
		},
		Spec: corev1.NodeSpec{Taints: slices.Clone(full.Spec.Taints), Unschedulable: full.Spec.Unschedulable},
	}
	node.Status.Conditions = make([]corev1.NodeCondition, 0, len(full.Status.Conditions))
	for i := range full.Status.Conditions {
		c := &full.Status.Conditions[i]
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: c.Type, Status: c.Status, LastHeartbeatTime: c.LastHeartbeatTime, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return node
}
