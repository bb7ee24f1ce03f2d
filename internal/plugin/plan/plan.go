// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan says what a change of taints would do to the cluster in its current state: which pods leave, when and
// why, what happens to their workloads and PodDisruptionBudgets, and which nodes are emptied.
//
// It is pure: it takes the objects of a cluster and an instant, and decides with packages taints and verdict, like the
// controller. What follows with time, EvictionPolicies and successors, is played by package course.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Request says which taints change, on which nodes and when.
type Request struct {
	// Nodes are the nodes whose taints change.
	Nodes []*corev1.Node
	// Edit is the change.
	Edit taints.Edit
	// Overwrite says what to do with a taint that already exists.
	Overwrite taints.Overwrite
	// At is when the change is made.
	At time.Time
	// WhereTo asks which nodes would take the pods that leave. Questions is how often nodes may be asked; 0 means
	// [placement.DefaultQuestions].
	WhereTo   bool
	Questions int
}

// Make returns what the change would do. The notes list the nodes on which it cannot be made. If it cannot be made on
// any node, Make returns an error.
func Make(ctx context.Context, cluster *state.Cluster, request Request) (*cliv1alpha1.TaintPlan, error) {
	changes, errs := changesOf(request)
	if len(changes) == 0 {
		return nil, errors.Join(errs...)
	}
	plan := begin(cluster, request)
	for _, err := range errs {
		plan.Notes = append(plan.Notes, "Left out "+err.Error()+".")
	}
	fill(plan, cluster, changes)
	outcome, err := play(ctx, plan, cluster, changes, request)
	if err != nil {
		return nil, err
	}
	weigh(plan, cluster, outcome)
	return plan, nil
}

// begin returns an empty plan.
func begin(cluster *state.Cluster, request Request) *cliv1alpha1.TaintPlan {
	is := cluster.Location
	plan := &cliv1alpha1.TaintPlan{
		TypeMeta: cliv1alpha1.Type("TaintPlan"),
		At:       metav1.NewMicroTime(request.At),
		Context:  is.Context, Cluster: is.Cluster, Server: is.Server,
		Taints:    request.Edit.Specs(),
		EvictedBy: cluster.By(),
		Notes:     cluster.Notes(),
		Nodes:     []cliv1alpha1.PlannedNode{},
		Pods:      []cliv1alpha1.PlannedPod{},
	}
	return plan
}

// fill says when pods must leave because of changes of nodes.
func fill(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, changes []change) {
	byNode, comparing := cluster.ByNode(), 0
	at := plan.At.Time
	waiting := deletesOf(cluster, byNode, changes, at)
	var compared comparison
	for _, change := range changes {
		plan.Nodes = append(plan.Nodes, change.planned())
		plan.Notes = append(plan.Notes, state.Undated(change.Node, change.before, at)...)
		for _, pod := range byNode[change.Name] {
			decided := change.decide(cluster.Evictor, pod, at)
			is := waiting.of(pod, decided)
			planned := change.judge(at, pod, is)
			planned.Owner = cluster.Owner(pod)
			plan.Pods = append(plan.Pods, planned)
			if cluster.IsBuiltIn() && planned.Reason == "" {
				compared.add(is.after, decided.before, state.Rule.Decide(state.FactsOf(pod, at), change.after), at)
			}
			comparing += count(state.Compares(pod.Spec.Tolerations))
		}
	}
	plan.Notes = slices.Concat(plan.Notes, state.ComparisonNotes(comparing), compared.notes())
	sortPods(plan.Pods)
}

// play returns what follows from the changes, and adds to a plan what EvictionPolicies do with the pods that leave, and
// where their successors would go.
func play(
	ctx context.Context, plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, changes []change, request Request,
) (*course.Outcome, error) {
	leaves := slices.ContainsFunc(plan.Pods, func(pod cliv1alpha1.PlannedPod) bool { return pod.Leaves })
	if (len(cluster.Policies) == 0 || cluster.IsBuiltIn()) && !leaves {
		return &course.Outcome{}, nil
	}
	whereTo := request.WhereTo && leaves
	is := course.Change{
		At: request.At, WhereTo: whereTo, Questions: cmp.Or(request.Questions, placement.DefaultQuestions),
	}
	for _, change := range changes {
		is.Nodes = append(is.Nodes, change.applied())
	}
	outcome, err := course.Retaint(ctx, cluster, is)
	if err != nil {
		return nil, fmt.Errorf("play what follows: %w", err)
	}
	if outcome.Policies != nil {
		tellPolicies(plan, outcome)
	}
	if whereTo {
		tellWhereTo(plan, cluster, outcome)
	}
	return outcome, nil
}

// change is what happens to the taints of one node.
type change struct {
	*corev1.Node

	edited        []corev1.Taint
	before, after []verdict.Taint // NoExecute
}

// changesOf returns what happens to the nodes, by name, and an error for each node that cannot be changed.
func changesOf(request Request) ([]change, []error) {
	var all []change
	var errs []error
	for _, node := range request.Nodes {
		edited, err := request.Edit.Apply(node.Spec.Taints, request.Overwrite)
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", node.Name, err))
			continue
		}
		before := state.Tainted(node, request.At)
		all = append(all, change{
			Node: node, edited: edited,
			before: before, after: verdict.Advance(before, edited, verdict.SeenAt(request.At)),
		})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.Name, b.Name) })
	return all, errs
}

// applied returns the node after the change.
func (c change) applied() *corev1.Node {
	node := *c.Node
	node.Spec.Taints = c.edited
	return &node
}

func (c change) planned() cliv1alpha1.PlannedNode {
	return cliv1alpha1.PlannedNode{
		Name: c.Name, Zone: c.Labels[corev1.LabelTopologyZone],
		Before: state.FormatAll(c.Spec.Taints), After: state.FormatAll(c.edited),
	}
}

// describe returns what a plan says about a pod on a node whatever happens to it.
func describe(pod *corev1.Pod, node string) cliv1alpha1.PlannedPod {
	planned := cliv1alpha1.PlannedPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: node}
	if pod.Spec.Priority != nil {
		planned.Priority = *pod.Spec.Priority
	}
	planned.GracePeriodSeconds = corev1.DefaultTerminationGracePeriodSeconds
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		planned.GracePeriodSeconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	return planned
}

// judge returns what happens to one pod of the node, given the decisions about it.
func (c change) judge(at time.Time, pod *corev1.Pod, is decisions) cliv1alpha1.PlannedPod {
	planned := describe(pod, c.Name)
	switch {
	case state.IsStatic(pod):
		planned.Reason = "A static pod: only its kubelet can stop it."
		return planned
	case pod.DeletionTimestamp != nil:
		planned.Reason = "It is already terminating."
		if state.IsOutOfService(c.applied()) {
			planned.Reason = "It is already terminating. The taint out-of-service lets pod garbage collection delete it."
		}
		return planned
	}
	before, after := is.before, is.after
	planned.Change = changeOf(before, after)
	planned.Leaves, planned.Toleration = after.Leaves, after.Toleration.DeepCopy()
	if after.Taint.Key != "" {
		planned.Taint = taints.Format(after.Taint.Taint)
	}
	planned.Due, planned.DueBefore = state.DueOf(after), state.DueOf(before)
	planned.About = state.IsAbout(after, at)
	return planned
}

func changeOf(before, after verdict.Verdict) cliv1alpha1.Change {
	switch {
	case !before.Leaves && after.Leaves:
		return cliv1alpha1.ChangeLeaves
	case before.Leaves && !after.Leaves:
		return cliv1alpha1.ChangeStays
	case after.Due.Before(before.Due):
		return cliv1alpha1.ChangeEarlier
	case before.Due.Before(after.Due):
		return cliv1alpha1.ChangeLater
	}
	return cliv1alpha1.ChangeNone
}

// sortPods puts the pods that leave before the others, soonest first.
func sortPods(pods []cliv1alpha1.PlannedPod) {
	slices.SortFunc(pods, func(a, b cliv1alpha1.PlannedPod) int {
		if a.Leaves != b.Leaves {
			return map[bool]int{true: -1, false: 1}[a.Leaves]
		}
		order := 0
		if a.Leaves {
			order = a.Due.Compare(b.Due.Time)
		}
		return cmp.Or(order, cmp.Compare(a.Priority, b.Priority),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// decisions are what the rule of the evictor says about a pod, without and with the plan.
type decisions struct{ before, after verdict.Verdict }

// decide returns the decisions about a pod of the node.
func (c change) decide(by state.Evictor, pod *corev1.Pod, at time.Time) decisions {
	facts := state.FactsOf(pod, at)
	before := by.Decide(facts, c.before)
	if by.IsBuiltIn() && state.SameNoExecute(c.Spec.Taints, c.edited) { // it does not look at the pod
		return decisions{before, before}
	}
	return decisions{before, by.Change(before, facts, c.after, at)}
}

// deletes says when the deletes of pods pass the rate limiter of kube-controller-manager, without and with the plan.
type deletes struct{ before, after map[*corev1.Pod]time.Time }

// deletesOf returns when pods are deleted if kube-controller-manager evicts. The due pods of all nodes wait together.
func deletesOf(
	cluster *state.Cluster, byNode map[string][]*corev1.Pod, changes []change, at time.Time,
) (all deletes) {
	if !cluster.IsBuiltIn() {
		return deletes{}
	}
	changed := map[string]change{}
	for _, change := range changes {
		changed[change.Name] = change
	}
	all = deletes{map[*corev1.Pod]time.Time{}, map[*corev1.Pod]time.Time{}}
	for _, node := range cluster.Nodes {
		on, changes := changed[node.Name]
		if !changes {
			tainted := state.Tainted(node, at)
			on = change{Node: node, edited: node.Spec.Taints, before: tainted, after: tainted}
		}
		for _, pod := range byNode[node.Name] {
			if pod.DeletionTimestamp != nil {
				continue
			}
			is := on.decide(cluster.Evictor, pod, at)
			if is.before.Leaves && !cluster.Forgot(is.before, at) {
				all.before[pod] = is.before.Due
			}
			if is.after.Leaves && !cluster.Forgot(is.after, at) {
				all.after[pod] = is.after.Due
			}
		}
	}
	wait(all.before)
	wait(all.after)
	return all
}

// wait makes pods whose evictions begin at some instants wait for each other.
func wait(pods map[*corev1.Pod]time.Time) {
	leave := make([]*corev1.Pod, 0, len(pods))
	for pod := range pods {
		leave = append(leave, pod)
	}
	slices.SortFunc(leave, func(a, b *corev1.Pod) int {
		return cmp.Or(pods[a].Compare(pods[b]), cmp.Compare(a.Spec.NodeName, b.Spec.NodeName),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	begin := make([]time.Time, 0, len(leave))
	for _, pod := range leave {
		begin = append(begin, pods[pod])
	}
	for i, at := range builtin.Deletes(begin) {
		pods[leave[i]] = at
	}
}

// of returns the decisions about a pod with the time for which it waits.
func (d deletes) of(pod *corev1.Pod, is decisions) decisions {
	if at, ok := d.before[pod]; ok {
		is.before.Due = at
	}
	if at, ok := d.after[pod]; ok {
		is.after.Due = at
	}
	return is
}

// comparison compares what kube-controller-manager does with what Taintkeeper would do.
type comparison struct {
	state.Comparison

	begun int // pods that could stay, but whose evictions have begun before the plan
}

// add adds a pod, given what the controller does, and when its eviction begins without the plan.
func (c *comparison) add(is, begins, ours verdict.Verdict, at time.Time) {
	c.Add(is, ours)
	c.begun += count(is.Leaves && !ours.Leaves && begins.DueAt(at))
}

func (c *comparison) notes() []string {
	if c.begun == 0 {
		return c.Notes()
	}
	return append([]string{fmt.Sprintf("kube-controller-manager has begun to evict %s that could stay, and deletes %s nevertheless: "+
		"removing a taint does not stop an eviction that waits in its queue.",
		sentence.Counted(c.begun, "pod"), sentence.Agree(c.begun, "it", "them"))}, c.Notes()...)
}
