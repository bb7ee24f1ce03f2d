// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Node is the record of a node. Records are shared and never modified: a change makes a new one.
//
// The object in it has only what is read, see [trimmed]. It is Kubernetes' own type because node health and the rules
// use the same functions, some of them Kubernetes' own, for nodes that they have just read live.
type Node struct {
	*corev1.Node
	// NoExecute are the node's taints of that effect, in their order, with all that this process knows about their
	// history. They are read, never modified.
	NoExecute []verdict.Taint
	// Tainted is when this process saw the last change of these taints.
	Tainted time.Time
	// Shown is when the watch brought this version of the node, if it has such taints.
	Shown time.Time
}

// Object returns the trimmed object of a record, or nil for a nil record.
func (n *Node) Object() *corev1.Node {
	if n == nil {
		return nil
	}
	return n.Node
}

// SameTaints reports whether two records of one node lead to the same verdicts and timeAdded. Either may be nil.
func (n *Node) SameTaints(other *Node) bool {
	switch {
	case n == nil:
		return other == nil || len(other.NoExecute) == 0
	case other == nil:
		return len(n.NoExecute) == 0
	case len(n.NoExecute) == 0 && len(other.NoExecute) == 0:
		return true
	}
	return n.UID == other.UID && slices.EqualFunc(n.NoExecute, other.NoExecute, verdict.Taint.Same)
}

// record makes the record of a node that is seen now, given what is known about it.
func (k nodes) record(object *corev1.Node, change Change) *Node {
	node, before := &Node{Node: trimmed(object)}, change.Before
	if len(taints.NoExecute(object.Spec.Taints)) == 0 {
		return node
	}
	seen := verdict.Seen{
		Sight: k.clock.See(), Version: object.ResourceVersion, Gap: change.Gap, NeverStamped: k.neverStamped(object.Name),
	}
	var known []verdict.Taint
	if before != nil && before.UID == object.UID {
		known = before.NoExecute
	}
	node.NoExecute, node.Tainted = verdict.Advance(known, node.Spec.Taints, seen), seen.At
	node.Shown = seen.At
	if before != nil && before.SameTaints(node) {
		node.Tainted = before.Tainted
	}
	return node
}

// same reports whether two records say the same.
func (n *Node) same(other *Node) bool {
	return n.ResourceVersion == other.ResourceVersion && apiequality.Semantic.DeepEqual(n.Node, other.Node)
}

// trimmed returns what is kept of a node. Messages of conditions are not, because writers of conditions read the node
// first.
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
			Type: c.Type, Status: c.Status, Reason: c.Reason,
			LastHeartbeatTime: c.LastHeartbeatTime, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return node
}

// Labels are most of a record, and most of their strings occur on many nodes: keys, zones, instance types. The cache
// keeps one copy of each, and of each reason of a condition. Taints have too few strings for that to pay off.

// shareLabels makes a new record use what is already kept: all labels of the previous record if they are the same, as
// in nearly every change, or else the shared copy of every string.
func (k nodes) shareLabels(after, before *Node) {
	if before != nil && maps.Equal(before.Labels, after.Labels) {
		after.Labels = before.Labels
		return
	}
	shared := make(map[string]string, len(after.Labels))
	for key, value := range after.Labels {
		if value == after.Name { // the hostname: no other node has it
			value = after.Name
		} else {
			value = k.strings.Share(value, value)
		}
		shared[k.strings.Share(key, key)] = value
	}
	after.Labels = shared
	if before != nil {
		k.releaseLabels(before)
	}
}

// releaseLabels ends the use of the labels of a dropped record.
func (k nodes) releaseLabels(node *Node) {
	for key, value := range node.Labels {
		k.strings.Release(key)
		if value != node.Name {
			k.strings.Release(value)
		}
	}
}

// shareReasons makes the conditions of a new record use the shared copies of their reasons.
func (k nodes) shareReasons(after, before *Node) {
	for i := range after.Status.Conditions {
		if reason := &after.Status.Conditions[i].Reason; *reason != "" {
			*reason = k.strings.Share(*reason, *reason)
		}
	}
	if before != nil {
		k.releaseReasons(before)
	}
}

// releaseReasons ends the use of the reasons of a dropped record.
func (k nodes) releaseReasons(node *Node) {
	for i := range node.Status.Conditions {
		if reason := node.Status.Conditions[i].Reason; reason != "" {
			k.strings.Release(reason)
		}
	}
}
