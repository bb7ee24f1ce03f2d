// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// Pending says which pods of a cluster must leave. It is safe for concurrent use if Owner is.
type Pending struct {
	// Owner returns the owner of a pod. If it is nil, pods have no owner.
	Owner func(*corev1.Pod) *cliv1alpha1.Owner
	// Policies are the EvictionPolicies, or nil if there are none.
	Policies *policies.Set
}

// On returns the pods of a node that must leave and are not terminating yet, in no particular order, with the answers
// of policies at an instant. The node may be nil.
func (p Pending) On(node *state.LiveNode, at time.Time) (pods []cliv1alpha1.PendingPod) {
	if node == nil {
		return nil
	}
	for _, pod := range node.Leaving() {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, p.of(pod, at))
		}
	}
	return pods
}

// of returns the pending eviction of a pod.
func (p Pending) of(pod state.Leaving, at time.Time) cliv1alpha1.PendingPod {
	decided := pod.Verdict
	pending := cliv1alpha1.PendingPod{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName,
		Priority: ptr.Deref(pod.Spec.Priority, 0),
		Due:      metav1.NewMicroTime(decided.Due), About: state.IsAbout(decided, pod.Node.Read),
		Taint: taints.Format(decided.Taint.Taint), Toleration: decided.Toleration.DeepCopy(),
		Answer: p.answer(pod, at),
	}
	if p.Owner != nil {
		pending.Owner = p.Owner(pod.Pod)
	}
	if pending.Answer.Stays() && !decided.Due.After(at) && !state.IsFinished(pod.Pod) {
		pending.EndsWithKubelet = state.EndedBy(pod.Spec.Tolerations, pod.Node.Taints)
	}
	return pending
}

// answer returns what policies say of a pod that must leave; nil if none selects it, or if the DaemonSet controller
// deletes the pod whatever they say.
func (p Pending) answer(pod state.Leaving, at time.Time) *cliv1alpha1.PolicyAnswer {
	if p.Policies == nil || pod.Node.By().IsBuiltIn() { // which heeds none
		return nil
	}
	is, node := policies.PodOf(pod.Pod), policies.NodeOf(pod.Node.Node)
	selecting := p.Policies.Selecting(is, node)
	if len(selecting) == 0 {
		return nil
	}
	causes := policy.CausesOf(state.Rule, pod.Facts, pod.Node.Taints)
	if state.Unwanted(pod.Pod, causes) {
		return nil
	}
	return policies.AnswerOf(p.Policies.Course(selecting, is, node, causes, at))
}

// In returns all pods of a cluster that must leave, soonest first.
func (p Pending) In(live *state.Live, at time.Time) *cliv1alpha1.PendingList {
	list := &cliv1alpha1.PendingList{
		TypeMeta: cliv1alpha1.Type("PendingList"),
		At:       metav1.NewMicroTime(at), EvictedBy: live.Evictor.By(), Pods: []cliv1alpha1.PendingPod{},
	}
	if p.Policies != nil {
		list.Notes = append(list.Notes, p.Policies.Flaws...)
	}
	var undated []sentence.About
	comparing := 0
	for node := range live.Nodes() {
		list.Stuck = append(list.Stuck, p.StuckOn(node, at)...)
		if len(node.Taints) == 0 {
			continue
		}
		for pod := range node.Pods() {
			comparing += count(pod.DeletionTimestamp == nil && state.Compares(pod.Spec.Tolerations))
		}
		if pods := p.On(node, at); len(pods) > 0 {
			list.Pods = append(list.Pods, pods...)
			undated = append(undated, state.Undated(node.Node, node.Taints, node.Read)...)
		}
	}
	list.Notes = slices.Concat(list.Notes, sentence.Grouped(undated), state.ComparisonNotes(comparing))
	list.Notes = append(list.Notes, endingNotes(list.Pods)...)
	slices.SortFunc(list.Pods, func(a, b cliv1alpha1.PendingPod) int { return SoonestFirst(&a, &b) })
	return list
}

// overdueAfter is how long a pod may be due before it counts as overdue. In a storm, pods wait for a slot.
const overdueAfter = time.Minute

// Count adds a pod to those that must leave, and reports whether it is held. From its due time on, a pod is held if a
// policy keeps it, and otherwise due. A minute later, it is also overdue.
func Count(pods *cliv1alpha1.PodsToGo, pod *cliv1alpha1.PendingPod, at time.Time) (held bool) {
	switch due := pod.Due.Time; {
	case due.After(at):
		pods.Later++
		pods.Next = earlier(pods.Next, &pod.Due)
	case pod.Answer.Stays():
		pods.Held++
		return true
	default:
		if pods.Due++; at.Sub(due) > overdueAfter {
			pods.Overdue++
			pods.Oldest = earlier(pods.Oldest, &pod.Due)
		}
	}
	return false
}

func earlier(a, b *metav1.MicroTime) *metav1.MicroTime {
	if a == nil || b.Before(a) {
		return b
	}
	return a
}

// CountPending counts the pods of a list, and adds those that policies hold to held, if that is not nil.
func CountPending(list *cliv1alpha1.PendingList, held map[cliv1alpha1.Objector]int) (pods cliv1alpha1.PodsToGo) {
	for i := range list.Pods {
		pod := &list.Pods[i]
		if Count(&pods, pod, list.At.Time) && held != nil {
			held[cliv1alpha1.Objector{Policy: pod.Answer.Policy, Reason: pod.Answer.Reason}]++
		}
	}
	return pods
}

// StuckOn returns the pods of a node that a taint has made leave, and that wait for something else than their
// containers, by name.
func (p Pending) StuckOn(node *state.LiveNode, at time.Time) (stuck []cliv1alpha1.StuckPod) {
	for pod := range node.Pods() {
		if pod.DeletionTimestamp == nil {
			continue
		}
		t := state.TerminationOf(pod.Pod, node.Node, false, at)
		if t.WaitsFor == cliv1alpha1.WaitsForContainers || t.Cause != v1alpha1.TaintEvictionReason {
			continue
		}
		is := cliv1alpha1.StuckPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: node.Name, Termination: *t}
		if p.Owner != nil {
			is.Owner = p.Owner(pod.Pod)
		}
		stuck = append(stuck, is)
	}
	slices.SortFunc(stuck, func(a, b cliv1alpha1.StuckPod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return stuck
}

// SoonestFirst compares pods that must leave by their due times. For the same time, the lowest priority comes first.
func SoonestFirst(a, b *cliv1alpha1.PendingPod) int {
	return cmp.Or(a.Due.Compare(b.Due.Time), cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
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
		change := cliv1alpha1.PendingChange{At: list.At, Change: event, Pod: *pod}
		change.TypeMeta = cliv1alpha1.Type("PendingChange")
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

// TaintsOf returns the taints of nodes that match, and how the pods on each node tolerate them.
func TaintsOf(cluster *state.Cluster, nodes []*corev1.Node, match func(corev1.Taint) bool) []cliv1alpha1.NodeTaint {
	all := []cliv1alpha1.NodeTaint{}
	byNode := cluster.ByNode()
	for _, node := range nodes {
		for _, taint := range node.Spec.Taints {
			if !match(taint) {
				continue
			}
			listed := cliv1alpha1.NodeTaint{
				Node: node.Name, Taint: taints.Format(taint), LastWrite: state.LastWriteOf(node),
				Key: taint.Key, Value: taint.Value, Effect: taint.Effect, TimeAdded: taint.TimeAdded,
			}
			for _, pod := range byNode[node.Name] {
				switch i, tolerated := state.Rule.Matcher.First(pod.Spec.Tolerations, &taint); {
				case !tolerated:
					listed.NotAtAll++
				case taint.Effect == corev1.TaintEffectNoExecute && pod.Spec.Tolerations[i].TolerationSeconds != nil:
					listed.ForAWhile++
				default:
					listed.Indefinite++
				}
			}
			all = append(all, listed)
		}
	}
	return all
}
