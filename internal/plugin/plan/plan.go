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
	"k8s.io/utils/ptr"

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
	changes, failed := changesOf(request)
	if len(changes) == 0 {
		var errs []error
		for _, is := range failed {
			errs = append(errs, sentence.ErrorAbout("node", is.Name, errors.New(is.Says)))
		}
		return nil, errors.Join(errs...)
	}
	for i := range failed {
		failed[i].What, failed[i].Says = "Left out node", failed[i].Says+"."
	}
	is := cluster.Location
	plan := &cliv1alpha1.TaintPlan{
		TypeMeta: cliv1alpha1.Type("TaintPlan"),
		At:       metav1.NewMicroTime(request.At),
		Context:  is.Context, Cluster: is.Cluster, Server: is.Server,
		Taints:    request.Edit.Specs(),
		EvictedBy: cluster.By(),
		Notes:     slices.Concat(cluster.Notes(), sentence.Grouped(failed)),
		Nodes:     []cliv1alpha1.PlannedNode{},
		Pods:      []cliv1alpha1.PlannedPod{},
	}
	fill(plan, cluster, changes)
	outcome, err := play(ctx, plan, cluster, changes, request)
	if err != nil {
		return nil, err
	}
	weigh(plan, cluster, outcome)
	return plan, nil
}

// fill says when pods must leave because of changes of nodes.
func fill(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, changes []change) {
	at, byNode := plan.At.Time, cluster.ByNode()
	decided := decide(cluster, byNode, changes, at)
	var (
		compared         state.Comparison
		undated          []sentence.About
		comparing, begun int
	)
	for _, change := range changes {
		plan.Nodes = append(plan.Nodes, cliv1alpha1.PlannedNode{
			Name: change.Name, Zone: change.Labels[corev1.LabelTopologyZone],
			Before: state.FormatAll(change.Spec.Taints), After: state.FormatAll(change.edited),
		})
		undated = append(undated, state.Undated(change.Node, change.before, at)...)
		for _, pod := range byNode[change.Name] {
			is := decided[pod]
			planned := change.judge(at, pod, is)
			planned.Owner = cluster.Owner(pod)
			plan.Pods = append(plan.Pods, planned)
			comparing += count(state.Compares(pod.Spec.Tolerations))
			if cluster.IsBuiltIn() && planned.Reason == "" {
				ours := state.Rule.Decide(state.FactsOf(pod, at), change.after)
				compared.Add(is.after, ours)
				begun += count(is.after.Leaves && !ours.Leaves && is.begun)
			}
		}
	}
	plan.Notes = slices.Concat(plan.Notes, sentence.Grouped(undated), state.ComparisonNotes(comparing))
	if begun > 0 { // pods that could stay
		plan.Notes = append(plan.Notes, fmt.Sprintf("kube-controller-manager has begun to evict %s that could stay, and deletes %s nevertheless: "+
			"removing a taint does not stop an eviction that waits in its queue.",
			sentence.Counted(begun, "pod"), sentence.Agree(begun, "it", "them")))
	}
	plan.Notes = append(plan.Notes, compared.Notes()...)
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
	options := course.Options{
		At: request.At, WhereTo: request.WhereTo && leaves, Questions: cmp.Or(request.Questions, placement.DefaultQuestions),
	}
	nodes := make([]*corev1.Node, 0, len(changes))
	for _, change := range changes {
		nodes = append(nodes, change.applied())
	}
	outcome, err := course.Retaint(ctx, cluster, nodes, options)
	if err != nil {
		return nil, fmt.Errorf("play what follows: %w", err)
	}
	if outcome.Policies != nil {
		addPolicies(plan, outcome)
	}
	if options.WhereTo {
		addWhereTo(plan, cluster, outcome)
	}
	return outcome, nil
}

// change is what happens to the taints of one node.
type change struct {
	*corev1.Node

	edited        []corev1.Taint
	before, after []verdict.Taint // NoExecute
}

// changesOf returns what happens to the nodes, by name, and why the others cannot be changed.
func changesOf(request Request) (all []change, failed []sentence.About) {
	for _, node := range request.Nodes {
		edited, err := request.Edit.Apply(node.Spec.Taints, request.Overwrite)
		if err != nil {
			failed = append(failed, sentence.About{Name: node.Name, Says: err.Error()})
			continue
		}
		before := state.Tainted(node, request.At)
		all = append(all, change{
			Node: node, edited: edited,
			before: before, after: verdict.Advance(before, edited, verdict.SeenAt(request.At)),
		})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.Name, b.Name) })
	return all, failed
}

// applied returns the node after the change.
func (c change) applied() *corev1.Node {
	node := *c.Node
	node.Spec.Taints = c.edited
	return &node
}

// describe returns what a plan says about a pod on a node whatever happens to it.
func describe(pod *corev1.Pod, node string) cliv1alpha1.PlannedPod {
	return cliv1alpha1.PlannedPod{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: node, Priority: ptr.Deref(pod.Spec.Priority, 0),
		GracePeriodSeconds: ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds),
	}
}

// judge returns what happens to one pod of the node, given the decisions about it.
func (c change) judge(at time.Time, pod *corev1.Pod, is *decisions) cliv1alpha1.PlannedPod {
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
type decisions struct {
	before, after verdict.Verdict
	begun         bool // its eviction begins without the plan
}

// decide returns the decisions about the pods of changed nodes. Pods that kube-controller-manager evicts leave when its
// rate limiter lets their deletes pass, for which the due pods of all nodes wait together.
func decide(
	cluster *state.Cluster, byNode map[string][]*corev1.Pod, changes []change, at time.Time,
) map[*corev1.Pod]*decisions {
	all, by := map[*corev1.Pod]*decisions{}, cluster.Evictor
	changed := map[string]bool{}
	for _, change := range changes {
		changed[change.Name] = true
	}
	if by.IsBuiltIn() {
		for _, node := range cluster.Nodes {
			if tainted := state.Tainted(node, at); !changed[node.Name] {
				changes = append(changes, change{Node: node, edited: node.Spec.Taints, before: tainted, after: tainted})
			}
		}
	}
	for _, change := range changes {
		for _, pod := range byNode[change.Name] {
			facts := state.FactsOf(pod, at)
			before := by.Decide(facts, change.before)
			is := &decisions{before: before, after: before, begun: before.DueAt(at)}
			// It does not look at pods of a node whose NoExecute taints stay.
			if !by.IsBuiltIn() || !state.SameNoExecute(change.Spec.Taints, change.edited) {
				is.after = by.Change(before, facts, change.after, at)
			}
			all[pod] = is
		}
	}
	if by.IsBuiltIn() {
		wait(by, all, at, func(is *decisions) *verdict.Verdict { return &is.before })
		wait(by, all, at, func(is *decisions) *verdict.Verdict { return &is.after })
	}
	return all
}

// wait makes pods whose evictions begin at some instants wait for each other.
func wait(by state.Evictor, all map[*corev1.Pod]*decisions, at time.Time, of func(*decisions) *verdict.Verdict) {
	var leave []*corev1.Pod
	for pod, is := range all {
		if decided := of(is); decided.Leaves && pod.DeletionTimestamp == nil && !by.Forgot(*decided, at) {
			leave = append(leave, pod)
		}
	}
	slices.SortFunc(leave, func(a, b *corev1.Pod) int {
		return cmp.Or(of(all[a]).Due.Compare(of(all[b]).Due), cmp.Compare(a.Spec.NodeName, b.Spec.NodeName),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	begin := make([]time.Time, 0, len(leave))
	for _, pod := range leave {
		begin = append(begin, of(all[pod]).Due)
	}
	for i, at := range builtin.Deletes(begin) {
		of(all[leave[i]]).Due = at
	}
}
