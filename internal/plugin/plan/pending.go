// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Countdowns follows nodes and pods over time, and says which pods must leave. It remembers when it first saw a taint,
// like the controller. The zero value is ready to use; it is not safe for concurrent use.
type Countdowns struct {
	// Owner returns the owner of a pod. If it is nil, pods have no owner.
	Owner func(*corev1.Pod) *cliv1alpha1.Owner
	// Policies are the EvictionPolicies, or nil if there are none.
	Policies *policies.Set

	nodes map[string]knownNode
	pods  map[string]map[types.UID]boundPod // by node
	where map[types.UID]string              // the node of a pod
}

// knownNode is what matters about a node.
type knownNode struct {
	policies.Node

	taints []verdict.Taint
	read   time.Time // when it was first read
	notes  []string
}

// boundPod is what matters about a pod on a node.
type boundPod struct {
	policies.Pod

	listed      cliv1alpha1.PendingPod
	facts       verdict.Pod
	ofDaemonSet bool
	finished    bool
}

// SetNode updates a node to its state at an instant.
func (c *Countdowns) SetNode(node *corev1.Node, at time.Time) {
	if c.nodes == nil {
		c.nodes = map[string]knownNode{}
	}
	known, again := c.nodes[node.Name]
	if again {
		known.taints = verdict.Advance(known.taints, node.Spec.Taints, verdict.SeenAt(at))
	} else {
		known.taints, known.read = state.Tainted(node, at), at
	}
	known.Node, known.notes = policies.NodeOf(node), state.Undated(node, at)
	c.nodes[node.Name] = known
}

// DeleteNode forgets a node. It still knows the node's pods, but taints no longer decide about them.
func (c *Countdowns) DeleteNode(name string) { delete(c.nodes, name) }

// SetPod updates a pod to its state at an instant. A pod that has no node, is static, or is terminating is forgotten,
// because taints cannot make it leave.
func (c *Countdowns) SetPod(pod *corev1.Pod, at time.Time) {
	node := pod.Spec.NodeName
	if node == "" || state.IsStatic(pod) || pod.DeletionTimestamp != nil {
		c.DeletePod(pod.UID)
		return
	}
	if c.pods == nil {
		c.pods, c.where = map[string]map[types.UID]boundPod{}, map[types.UID]string{}
	}
	if c.pods[node] == nil {
		c.pods[node] = map[types.UID]boundPod{}
	}
	bound := verdict.SeenAt(at).Start(verdict.Bound(pod))
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
	facts := verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: bound}
	c.pods[node][pod.UID] = boundPod{policies.PodOf(pod), listed, facts, state.IsOfDaemonSet(pod), state.IsOver(pod)}
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

// Has reports whether a pod is known and on a node, even if it need not leave.
func (c *Countdowns) Has(uid types.UID) bool {
	_, ok := c.where[uid]
	return ok
}

// NodeOf returns the node of a known pod, or an empty string.
func (c *Countdowns) NodeOf(uid types.UID) string { return c.where[uid] }

// Taints returns the NoExecute taints of a node, with the instants from which they count.
func (c *Countdowns) Taints(node string) []verdict.Taint { return c.nodes[node].taints }

// Of returns the pending eviction of one pod if it must leave, without the answer of policies.
func (c *Countdowns) Of(uid types.UID) (cliv1alpha1.PendingPod, bool) {
	node := c.where[uid]
	return c.pods[node][uid].decide(c.nodes[node])
}

// On returns the pods of a node that must leave, in no particular order, with the answers of policies at an instant.
func (c *Countdowns) On(node string, at time.Time) []cliv1alpha1.PendingPod {
	known := c.nodes[node]
	if len(known.taints) == 0 {
		return nil
	}
	var pods []cliv1alpha1.PendingPod
	for _, pod := range c.pods[node] {
		if pending, leaves := pod.decide(known); leaves {
			pending.Answer = c.answer(pod, known, at)
			if pending.Answer.Stays() && !pending.Due.After(at) && !pod.finished {
				pending.EndsWithKubelet = state.EndedBy(pod.facts.Tolerations, known.taints)
			}
			pods = append(pods, pending)
		}
	}
	return pods
}

// answer returns what policies say of a pod that must leave; nil if none selects it, or if the DaemonSet controller
// deletes the pod whatever they say.
func (c *Countdowns) answer(pod boundPod, node knownNode, at time.Time) *cliv1alpha1.PolicyAnswer {
	if c.Policies == nil {
		return nil
	}
	selecting := c.Policies.Selecting(pod.Pod, node.Node)
	if len(selecting) == 0 {
		return nil
	}
	causes := policy.CausesOf(state.Rule, pod.facts, node.taints)
	if pod.ofDaemonSet && state.Refused(pod.facts.Tolerations, causes) {
		return nil
	}
	return policies.AnswerOf(c.Policies.Course(selecting, pod.Pod, node.Node, causes, at))
}

// Pending returns all pods that must leave, soonest first.
func (c *Countdowns) Pending(at time.Time) *cliv1alpha1.PendingList {
	list := &cliv1alpha1.PendingList{At: metav1.NewMicroTime(at), Pods: []cliv1alpha1.PendingPod{}}
	list.SetGroupVersionKind(cliv1alpha1.GroupVersion.WithKind("PendingList"))
	if c.Policies != nil {
		list.Notes = append(list.Notes, c.Policies.Flaws...)
	}
	comparing := 0
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		comparing += c.comparing(name)
		if pods := c.On(name, at); len(pods) > 0 {
			list.Pods = append(list.Pods, pods...)
			list.Notes = append(list.Notes, c.nodes[name].notes...)
		}
	}
	list.Notes = append(list.Notes, state.ComparisonNotes(comparing)...)
	list.Notes = append(list.Notes, endingNotes(list.Pods)...)
	slices.SortFunc(list.Pods, func(a, b cliv1alpha1.PendingPod) int { return SoonestFirst(&a, &b) })
	return list
}

// comparing counts the pods on tainted nodes whose tolerations compare numbers.
func (c *Countdowns) comparing(node string) (pods int) {
	if len(c.nodes[node].taints) == 0 {
		return 0
	}
	for _, pod := range c.pods[node] {
		pods += count(state.Compares(pod.facts.Tolerations))
	}
	return pods
}

// SoonestFirst compares pods that must leave by their due times. For the same time, the lowest priority comes first.
func SoonestFirst(a, b *cliv1alpha1.PendingPod) int {
	return cmp.Or(a.Due.Compare(b.Due.Time), cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// decide returns the pending eviction of a pod, if it must leave its node.
func (p boundPod) decide(node knownNode) (cliv1alpha1.PendingPod, bool) {
	decided := state.Rule.Decide(p.facts, node.taints)
	if !decided.Leaves {
		return cliv1alpha1.PendingPod{}, false
	}
	pod := p.listed
	pod.Due, pod.About = metav1.NewMicroTime(decided.Due), state.IsAbout(decided, node.read)
	pod.Taint, pod.Toleration = taints.Format(decided.Taint.Taint), decided.Toleration.DeepCopy()
	return pod, true
}

// ChangesSince says what has changed since an earlier list: first the pods that are no longer pending, then those that
// are. Pods that are no longer pending are cancelled if has says that they still exist; otherwise they are gone.
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
		isDue := pod.Due.After(before.At.Time) && !pod.Due.After(list.At.Time)
		if event := eventOf(old[pod.UID], pod, isDue); event != "" {
			add(event, pod)
		}
	}
	return changes
}

// eventOf says what happened to a pending pod. It is empty if nothing did. known is nil for a pod that was not pending.
func eventOf(known, pod *cliv1alpha1.PendingPod, isDue bool) cliv1alpha1.PendingEvent {
	switch {
	case known == nil:
		return cliv1alpha1.PendingLeaves
	case !known.Due.Time.Equal(pod.Due.Time):
		return cliv1alpha1.PendingMoved
	case isDue:
		return cliv1alpha1.PendingDueNow
	case pod.Answer.HeldBy() == known.Answer.HeldBy():
		return ""
	case pod.Answer.Stays():
		return cliv1alpha1.PendingHeld
	}
	return cliv1alpha1.PendingReleased
}

// endingNotes says how many pods that stay would end with a restart of their kubelet.
func endingNotes(pods []cliv1alpha1.PendingPod) []string {
	ending := 0
	for i := range pods {
		ending += count(pods[i].EndsWithKubelet != "")
	}
	if ending == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s if the kubelet restarts, because no toleration matches a taint of the node. Taintkeeper adds one to due pods that stay, which takes moments.",
		sentence.Do(ending, "held pod", "ends", "end"))}
}
