// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Countdowns knows nodes and pods over time, and says which pods have to leave. What it has seen of a taint stays seen, as
// for the controller: without a timeAdded it counts from the first sight. The zero value is ready; it is not safe for
// concurrent use.
type Countdowns struct {
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Owner says who owns a pod. Without it nobody does.
	Owner func(*corev1.Pod) *cliv1alpha1.Owner

	nodes map[string]knownNode
	pods  map[string]map[types.UID]boundPod // by node
	where map[types.UID]string              // the node of a pod
}

// knownNode is what counts of a node.
type knownNode struct {
	taints []verdict.Taint
	notes  []string
}

// boundPod is what counts of a pod on a node.
type boundPod struct {
	listed cliv1alpha1.PendingPod
	facts  verdict.Pod
}

// SetNode takes a node as it was seen at an instant.
func (c *Countdowns) SetNode(node *corev1.Node, at time.Time) {
	if c.nodes == nil {
		c.nodes = map[string]knownNode{}
	}
	c.nodes[node.Name] = knownNode{
		taints: verdict.Advance(c.nodes[node.Name].taints, node.Spec.Taints, at),
		notes:  change{name: node.Name, taints: node.Spec.Taints}.notes(),
	}
}

// DeleteNode forgets a node. Its pods stay known: they are no longer a taint's business.
func (c *Countdowns) DeleteNode(name string) { delete(c.nodes, name) }

// SetPod takes a pod as it was seen at an instant. One without a node, a static one, or one that is terminating is none
// that a taint can make leave.
func (c *Countdowns) SetPod(pod *corev1.Pod, at time.Time) {
	node := pod.Spec.NodeName
	if node == "" || IsStatic(pod) || pod.DeletionTimestamp != nil {
		c.DeletePod(pod.UID)
		return
	}
	if c.pods == nil {
		c.pods, c.where = map[string]map[types.UID]boundPod{}, map[types.UID]string{}
	}
	if c.pods[node] == nil {
		c.pods[node] = map[types.UID]boundPod{}
	}
	bound := verdict.Precise(verdict.Bound(pod), at)
	if known, ok := c.pods[node][pod.UID]; ok && known.facts.Bound.Before(bound) {
		bound = known.facts.Bound
	}
	listed := cliv1alpha1.PendingPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: node}
	if pod.Spec.Priority != nil {
		listed.Priority = *pod.Spec.Priority
	}
	if c.Owner != nil {
		listed.Owner = c.Owner(pod)
	}
	c.pods[node][pod.UID] = boundPod{listed, verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: bound}}
	c.where[pod.UID] = node
}

// DeletePod forgets a pod.
func (c *Countdowns) DeletePod(uid types.UID) {
	node := c.where[uid]
	delete(c.where, uid)
	delete(c.pods[node], uid)
	if len(c.pods[node]) == 0 {
		delete(c.pods, node)
	}
}

// Has reports whether a pod is known and on a node, whether it has to leave or not.
func (c *Countdowns) Has(uid types.UID) bool {
	_, ok := c.where[uid]
	return ok
}

// Pending returns all pods that have to leave, soonest first.
func (c *Countdowns) Pending(at time.Time) *cliv1alpha1.PendingList {
	list := &cliv1alpha1.PendingList{At: metav1.NewMicroTime(at), Pods: []cliv1alpha1.PendingPod{}}
	list.SetGroupVersionKind(cliv1alpha1.GroupVersion.WithKind("PendingList"))
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		node := c.nodes[name]
		if len(node.taints) == 0 {
			continue
		}
		before := len(list.Pods)
		for _, pod := range c.pods[name] {
			if decided := c.Rule.Decide(pod.facts, node.taints); decided.Leaves {
				list.Pods = append(list.Pods, pod.pending(decided))
			}
		}
		if len(list.Pods) > before {
			list.Notes = append(list.Notes, node.notes...)
		}
	}
	slices.SortFunc(list.Pods, func(a, b cliv1alpha1.PendingPod) int {
		return cmp.Or(a.Due.Compare(b.Due.Time), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func (p boundPod) pending(decided verdict.Verdict) cliv1alpha1.PendingPod {
	pod := p.listed
	pod.Due = metav1.NewMicroTime(decided.Due)
	pod.Taint, pod.Toleration = taints.Format(decided.Taint.Taint), decided.Toleration.DeepCopy()
	return pod
}

// ChangesSince says what has changed since an earlier list: first of the pods that are no longer pending, then of those that
// are. Pods that are not pending any more are cancelled if has says that they are there still, else gone.
func ChangesSince(before, list *cliv1alpha1.PendingList, has func(types.UID) bool) []cliv1alpha1.PendingChange {
	old, now := map[types.UID]*cliv1alpha1.PendingPod{}, map[types.UID]bool{}
	for i := range before.Pods {
		old[before.Pods[i].UID] = &before.Pods[i]
	}
	for i := range list.Pods {
		now[list.Pods[i].UID] = true
	}
	var changes []cliv1alpha1.PendingChange
	add := func(event cliv1alpha1.PendingEvent, pod *cliv1alpha1.PendingPod) {
		change := cliv1alpha1.PendingChange{At: list.At, Change: event, Pod: *pod.DeepCopy()}
		change.SetGroupVersionKind(cliv1alpha1.GroupVersion.WithKind("PendingChange"))
		changes = append(changes, change)
	}
	for i := range before.Pods {
		pod := &before.Pods[i]
		switch {
		case now[pod.UID]:
		case has(pod.UID):
			add(cliv1alpha1.PendingCancelled, pod)
		default:
			add(cliv1alpha1.PendingGone, pod)
		}
	}
	for i := range list.Pods {
		pod := &list.Pods[i]
		switch known := old[pod.UID]; {
		case known == nil:
			add(cliv1alpha1.PendingLeaves, pod)
		case !known.Due.Time.Equal(pod.Due.Time):
			add(cliv1alpha1.PendingMoved, pod)
		case pod.Due.After(before.At.Time) && !pod.Due.After(list.At.Time):
			add(cliv1alpha1.PendingDueNow, pod)
		}
	}
	return changes
}
