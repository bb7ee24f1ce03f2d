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
	best, err := r.scheduler.preempt(ctx, a, budgets())
	if best == nil {
		return Preemption{}, err
	}
	if err := r.scheduler.nominated.add(a.successor, best.Name()); err != nil {
		return Preemption{}, fmt.Errorf("nominate node %s: %w", best.Name(), err)
	}
	return Preemption{Node: best.Name(), Victims: best.Victims().Pods}, nil
}

func mayPreempt(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever
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

// dryRuns is what preemption would do on nodes for pods of one shape and priority.
type dryRuns struct {
	changes int     // how many changes of nodes it takes into account
	budgets []int32 // how many disruptions PodDisruptionBudgets allowed
	by      map[int]preemption.Candidate
}

// dryRunsOf returns what is known of preemption for pods like the one that was asked about. Nodes that have changed are
// not known anymore. If filters examine more than the node, none is.
func (s *scheduler) dryRunsOf(a Answer, budgets []*policyv1.PodDisruptionBudget) *dryRuns {
	numbers := make([]int32, len(budgets))
	for i, budget := range budgets {
		numbers[i] = budget.Status.DisruptionsAllowed
	}
	is := &dryRuns{budgets: numbers, by: map[int]preemption.Candidate{}}
	if !nearSighted(a.state) {
		return is
	}
	shape, priority := a.group.shape, corev1helpers.PodPriority(a.successor)
	if known := shape.dryRuns[priority]; known != nil && slices.Equal(known.budgets, numbers) {
		is = known
		for _, place := range s.changedSince(is.changes) {
			delete(is.by, place)
		}
	}
	if shape.dryRuns == nil {
		shape.dryRuns = map[int32]*dryRuns{}
	}
	shape.dryRuns[priority], is.changes = is, len(s.changed)
	return is
}

// preempt returns the best node on which the pods of lower priority leave room for a pod, with these pods; nil if there
// is none. It examines nodes in groups, so that the answer does not depend on which of them answers first.
func (s *scheduler) preempt(
	ctx context.Context, a Answer, budgets []*policyv1.PodDisruptionBudget,
) (best preemption.Candidate, err error) {
	known, found, harmless := s.dryRunsOf(a, budgets), 0, false
	needed := max(len(a.said.resolvable)*enoughPercent/100, enough)
	for group := range slices.Chunk(a.said.resolvable, enough) {
		if err := s.dryRun(ctx, a, known, group, budgets); err != nil {
			return nil, err
		}
		for _, place := range group {
			candidate := known.by[place]
			if candidate == nil {
				continue
			}
			found++
			harmless = harmless || candidate.Victims().NumPDBViolations == 0
			if best == nil || compareCandidates(candidate, best) < 0 {
				best = candidate
			}
		}
		if harmless && found >= needed || a.limit.isUsedUp() {
			break
		}
	}
	return best, nil
}

// dryRun examines those of the nodes that are not known. That a node cannot be examined means that preemption does not
// help there.
func (s *scheduler) dryRun(ctx context.Context, a Answer, known *dryRuns, places []int,
	budgets []*policyv1.PodDisruptionBudget) error {
	var nodes []fwk.NodeInfo
	for _, place := range places {
		if _, is := known.by[place]; !is {
			known.by[place] = nil
			nodes = append(nodes, s.nodes[place])
			a.limit.asked += 1 + len(s.nodes[place].GetPods())
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	all, _, _ := s.preemption.DryRunPreemption(ctx, a.state, a.successor, nodes, budgets, 0, int32(len(nodes))+1)
	for _, candidate := range all {
		known.by[s.places[candidate.Name()]] = candidate
	}
	return ctx.Err()
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
