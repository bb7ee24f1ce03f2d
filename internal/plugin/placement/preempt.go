// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// Of the nodes where preemption may help, the scheduler examines some until it has found enough: DefaultPreemptionArgs.
const (
	enoughPercent = 10
	enough        = 100
)

// Preemption is what the scheduler does for a pod that no node takes.
type Preemption struct {
	// Node is where the pod fits without the victims. It is empty if preemption does not help.
	Node    string
	Victims []*corev1.Pod
}

// Preempt says which pods the scheduler would preempt so that a node takes a pod, with the answer of Place about it and
// the PodDisruptionBudgets as they are now. Nothing changes before these pods terminate.
func (r *Room) Preempt(
	ctx context.Context, a Answer, budgets func() []*policyv1.PodDisruptionBudget,
) (Preemption, error) {
	switch {
	case a.state == nil || len(a.said.resolvable) == 0 || a.limit.isUsedUp():
		return Preemption{}, nil
	case !mayPreempt(a.successor) || corev1helpers.PodPriority(a.successor) <= r.lowest:
		return Preemption{}, nil
	}
	places := r.scheduler.hopeful(a)
	if len(places) == 0 {
		return Preemption{}, nil
	}
	best := r.scheduler.preempt(ctx, a.state, a.successor, places, budgets(), a.limit)
	if best == nil {
		a.group.hopeless = &hopeless{changes: len(r.scheduler.changed)}
		return Preemption{}, nil
	}
	if err := r.scheduler.nominated.add(a.successor, best.Name()); err != nil {
		return Preemption{}, fmt.Errorf("nominate node %s: %w", best.Name(), err)
	}
	return Preemption{Node: best.Name(), Victims: best.Victims().Pods}, nil
}

func mayPreempt(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever
}

// hopeless says that preemption did not help pods of a group on any node, after some changes of nodes.
type hopeless struct{ changes int }

// hopeful returns the indexes of the nodes that preemption may help. If it did not help an equal pod on any, only nodes
// that have changed since may be different, unless the filters examine more than the node.
func (s *scheduler) hopeful(a Answer) []int {
	places := a.said.resolvable
	if a.group.hopeless == nil || !nearSighted(a.state) {
		return places
	}
	changed := s.changedSince(a.group.hopeless.changes)
	return slices.DeleteFunc(slices.Clone(places), func(place int) bool {
		_, is := slices.BinarySearch(changed, place)
		return !is
	})
}

// newPreemption returns the scheduler's plugin for preemption. Only what decides is called, not what acts.
func newPreemption(ctx context.Context, handle fwk.Handle) (*preemption.Evaluator, error) {
	args := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: enoughPercent, MinCandidateNodesAbsolute: enough}
	plugin, err := defaultpreemption.New(klog.NewContext(ctx, noLogs), args, handle, feature.Features{})
	if err != nil {
		return nil, fmt.Errorf("start the scheduler's preemption: %w", err)
	}
	return plugin.Evaluator, nil
}

// preempt returns the best node on which the pods of lower priority leave room for a pod, with these pods; nil if there
// is none. It examines nodes in groups, so that the answer does not depend on which of them answers first. An error is
// no candidate, as long as others are.
func (s *scheduler) preempt(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, places []int,
	budgets []*policyv1.PodDisruptionBudget, limit *budget) preemption.Candidate {
	var all []preemption.Candidate
	needed, harmless := max(len(places)*enoughPercent/100, enough), false
	for group := range slices.Chunk(places, enough) {
		nodes := make([]fwk.NodeInfo, len(group))
		for i, place := range group {
			nodes[i] = s.nodes[place]
			limit.asked += 1 + len(nodes[i].GetPods())
		}
		found, _, _ := s.preemption.DryRunPreemption(ctx, state, pod, nodes, budgets, 0, int32(len(nodes))+1)
		all = append(all, found...)
		harmless = harmless || slices.ContainsFunc(found, func(one preemption.Candidate) bool {
			return one.Victims().NumPDBViolations == 0
		})
		if harmless && len(all) >= needed || limit.isUsedUp() {
			break
		}
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, compareCandidates)
}

// compareCandidates compares nodes with their victims, the best first: as the scheduler does (pickOneNodeForPreemption)
// and, where it chooses at random, by name.
func compareCandidates(a, b preemption.Candidate) int {
	of, other := a.Victims(), b.Victims()
	order := cmp.Or(
		cmp.Compare(of.NumPDBViolations, other.NumPDBViolations),
		cmp.Compare(corev1helpers.PodPriority(of.Pods[0]), corev1helpers.PodPriority(other.Pods[0])), // the highest
		cmp.Compare(sumOfPriorities(of.Pods), sumOfPriorities(other.Pods)),
		cmp.Compare(len(of.Pods), len(other.Pods)),
	)
	if order != 0 {
		return order
	}
	started, then := util.GetEarliestPodStartTime(of), util.GetEarliestPodStartTime(other)
	if started != nil && then != nil && !started.Equal(then) {
		return then.Compare(started.Time)
	}
	return cmp.Compare(a.Name(), b.Name())
}

func sumOfPriorities(pods []*corev1.Pod) (sum int64) {
	for _, pod := range pods {
		sum += int64(corev1helpers.PodPriority(pod)) + math.MaxInt32 + 1
	}
	return sum
}

// nominations are the pods that wait until the pods which they preempt are gone. Others do not preempt for their room.
type nominations struct {
	fwk.PodNominator

	pods map[string][]fwk.PodInfo // by node
	on   map[types.UID]string
}

// NominatedPodsForNode implements fwk.PodNominator.
func (n *nominations) NominatedPodsForNode(node string) []fwk.PodInfo { return n.pods[node] }

func (n *nominations) add(pod *corev1.Pod, node string) error {
	n.remove(pod)
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	n.pods[node], n.on[pod.UID] = append(n.pods[node], info), node
	return nil
}

func (n *nominations) remove(pod *corev1.Pod) {
	node := n.on[pod.UID]
	delete(n.on, pod.UID)
	n.pods[node] = slices.DeleteFunc(n.pods[node], func(info fwk.PodInfo) bool { return info.GetPod().UID == pod.UID })
	if len(n.pods[node]) == 0 {
		delete(n.pods, node)
	}
}
