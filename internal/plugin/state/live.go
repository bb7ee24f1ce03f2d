// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Live is the nodes of a cluster as they change, with their bound pods and with when each taint began to count, as the
// controller remembers it. A list and a watch use the same door. The zero value is ready to use; it is not safe for
// concurrent use. It keeps what it is given: callers must not modify that later.
type Live struct {
	// Evictor is by whose rule pods leave.
	Evictor Evictor

	nodes map[string]*LiveNode
	where map[types.UID]*LiveNode
	share sharer
}

// LiveNode is a node with the pods on it.
type LiveNode struct {
	// Node is nil if the node does not exist, or was not read. Taints then do not decide about its pods.
	*corev1.Node

	// Taints are its NoExecute taints.
	Taints []verdict.Taint
	// Read is when it was first read.
	Read time.Time

	by   *Evictor
	pods map[types.UID]*LivePod
}

// LivePod is a pod on a node.
type LivePod struct {
	*corev1.Pod

	// Facts are what the rule needs to know about it.
	Facts verdict.Pod
}

// Leaving is a pod that must leave, or is leaving, and still exists.
type Leaving struct {
	*LivePod

	Node    *LiveNode
	Verdict verdict.Verdict
}

// LiveOf returns what is known of a cluster that is read once.
func LiveOf(by Evictor, nodes []*corev1.Node, pods []*corev1.Pod, at time.Time) *Live {
	l := &Live{Evictor: by}
	for _, node := range nodes {
		l.SetNode(node, at)
	}
	for _, pod := range pods {
		l.SetPod(pod, at)
	}
	return l
}

// SetNode updates a node to its state at an instant.
func (l *Live) SetNode(node *corev1.Node, at time.Time) {
	n := l.at(node.Name)
	if n.Read.IsZero() {
		n.Taints, n.Read = Tainted(node, at), at
	} else {
		n.Taints = verdict.Advance(n.Taints, node.Spec.Taints, verdict.SeenAt(at))
	}
	n.Node = node
}

// DeleteNode forgets a node, but not the pods on it.
func (l *Live) DeleteNode(name string) {
	n := l.nodes[name]
	if n == nil {
		return
	}
	n.Node, n.Taints, n.Read = nil, nil, time.Time{}
	l.clean(name)
}

// SetPod updates a pod to its state at an instant. A pod without a node is forgotten, and so is a static pod, which
// taints cannot make leave. A binding that is seen twice counts from the first time.
func (l *Live) SetPod(pod *corev1.Pod, at time.Time) {
	before := l.Pod(pod.UID)
	l.DeletePod(pod.UID)
	if pod.Spec.NodeName == "" || IsStatic(pod) {
		return
	}
	live := &LivePod{l.share.share(pod), FactsOf(pod, at)}
	if before != nil && before.Facts.Bound.Before(live.Facts.Bound) {
		live.Facts.Bound = before.Facts.Bound
	}
	n := l.at(pod.Spec.NodeName)
	n.pods[pod.UID], l.where[pod.UID] = live, n
}

// DeletePod forgets a pod.
func (l *Live) DeletePod(uid types.UID) {
	n := l.where[uid]
	if n == nil {
		return
	}
	name := n.pods[uid].Spec.NodeName
	delete(n.pods, uid)
	delete(l.where, uid)
	l.clean(name)
}

// at returns the node with a name, which may be unread.
func (l *Live) at(name string) *LiveNode {
	if l.nodes == nil {
		l.nodes, l.where = map[string]*LiveNode{}, map[types.UID]*LiveNode{}
	}
	if l.nodes[name] == nil {
		l.nodes[name] = &LiveNode{by: &l.Evictor, pods: map[types.UID]*LivePod{}}
	}
	return l.nodes[name]
}

// clean forgets a node that does not exist once no pod is on it.
func (l *Live) clean(name string) {
	if n := l.nodes[name]; n.Node == nil && len(n.pods) == 0 {
		delete(l.nodes, name)
	}
}

// Node returns a node that exists, or nil.
func (l *Live) Node(name string) *LiveNode {
	if n := l.nodes[name]; n != nil && n.Node != nil {
		return n
	}
	return nil
}

// Nodes returns the nodes that exist, by name.
func (l *Live) Nodes() iter.Seq[*LiveNode] {
	return func(yield func(*LiveNode) bool) {
		for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
			if n := l.nodes[name]; n.Node != nil && !yield(n) {
				return
			}
		}
	}
}

// Pod returns a pod, or nil.
func (l *Live) Pod(uid types.UID) *LivePod {
	if n := l.where[uid]; n != nil {
		return n.pods[uid]
	}
	return nil
}

// By returns by whose rule the pods leave.
func (n *LiveNode) By() Evictor { return *n.by }

// Pods returns the pods on a node, in no particular order.
func (n *LiveNode) Pods() iter.Seq[*LivePod] { return maps.Values(n.pods) }

// Leaving returns a pod if it must leave its node.
func (l *Live) Leaving(uid types.UID) (Leaving, bool) {
	n := l.where[uid]
	if n == nil {
		return Leaving{}, false
	}
	return n.decide(n.pods[uid])
}

func (n *LiveNode) decide(pod *LivePod) (Leaving, bool) {
	decided := n.by.Decide(pod.Facts, n.Taints)
	return Leaving{pod, n, decided}, decided.Leaves
}

// Leaving returns the pods on a node that must leave or are leaving, in no particular order.
func (n *LiveNode) Leaving() (all []Leaving) {
	if len(n.Taints) == 0 {
		return nil
	}
	for _, pod := range n.pods {
		if leaving, leaves := n.decide(pod); leaves {
			all = append(all, leaving)
		}
	}
	return all
}

// Tainted returns the NoExecute taints of a node that is read at an instant. kubectl taint writes no timeAdded. A taint
// without one counts from roughly when the taints of the node were last written, according to its managed fields.
func Tainted(node *corev1.Node, at time.Time) []verdict.Taint {
	seen := verdict.SeenAt(at)
	all := verdict.Advance(nil, node.Spec.Taints, seen)
	written := TaintsWritten(node)
	if written == nil {
		return all
	}
	since := seen.Start(written.Time.Time)
	for i := range all {
		if all[i].TimeAdded.IsZero() && since.Before(all[i].Since) {
			all[i].Since = since
		}
	}
	return all
}

// TaintsWritten returns the newest managed fields entry of a node that includes its taints, or nil. A client that
// writes one taint owns all of them, so the entry may be newer than a taint.
func TaintsWritten(node *corev1.Node) *metav1.ManagedFieldsEntry {
	var newest *metav1.ManagedFieldsEntry
	for i := range node.ManagedFields {
		entry := &node.ManagedFields[i]
		if entry.Time != nil && builtin.Writes(entry, builtin.Taints) && (newest == nil || newest.Time.Before(entry.Time)) {
			newest = entry
		}
	}
	return newest
}

// LastWriteOf returns who last wrote the taints of a node, and when. It is nil if its managed fields do not say so.
func LastWriteOf(node *corev1.Node) *cliv1alpha1.Write {
	written := TaintsWritten(node)
	if written == nil {
		return nil
	}
	return &cliv1alpha1.Write{By: written.Manager, At: *written.Time}
}

// Undated says when taints of a node start to count that have no timeAdded, if the node had them when it was first
// read.
func Undated(node *corev1.Node, onNode []verdict.Taint, read time.Time) []string {
	var notes []string
	for _, taint := range onNode {
		if !taint.TimeAdded.IsZero() || taint.Since.After(read) {
			continue
		}
		spec := taints.Format(taint.Taint)
		if written := TaintsWritten(node); written != nil && taint.Since.Before(read) {
			notes = append(notes, fmt.Sprintf("Node %s: taint %s has no timeAdded. It counts from about %s, when %s last wrote the taints of the node.",
				node.Name, spec, written.Time.UTC().Format(time.RFC3339), written.Manager))
			continue
		}
		notes = append(notes, fmt.Sprintf("Node %s: taint %s has no timeAdded, so it counts from when this command first read it. "+
			"A controller that saw it earlier counts from then.", node.Name, spec))
	}
	return notes
}

// IsAbout reports whether a due time is only an estimate: it counts from a taint without a timeAdded that the node had
// before it was first read.
func IsAbout(v verdict.Verdict, read time.Time) bool {
	return v.Leaves && v.Taint.TimeAdded.IsZero() && v.Start.Equal(v.Taint.Since) && v.Taint.Since.Before(read)
}

// FormatAll writes taints as kubectl does.
func FormatAll(all []corev1.Taint) []string {
	specs := make([]string, 0, len(all))
	for _, taint := range all {
		specs = append(specs, taints.Format(taint))
	}
	return specs
}

// DueOf returns when a verdict makes a pod leave, or nil.
func DueOf(v verdict.Verdict) *metav1.MicroTime {
	if !v.Leaves {
		return nil
	}
	due := metav1.NewMicroTime(v.Due)
	return &due
}
