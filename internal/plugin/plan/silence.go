// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Silence says which nodes give no sign of life, since when, and how the controller handles that.
type Silence struct {
	// Nodes are the nodes that become silent.
	Nodes []*corev1.Node
	// At is when they become silent.
	At time.Time
	// Grace is how long they may be silent, and Policy how fast they are tainted.
	Grace  readiness.Grace
	Policy readiness.Policy
}

// MakeSilent returns what would happen if nodes became silent: they are tainted according to node health, and then pods
// leave.
func MakeSilent(cluster *state.Cluster, silence Silence) *cliv1alpha1.TaintPlan {
	fallen := map[string]*corev1.Node{}
	var names []string
	for _, node := range silence.Nodes {
		fallen[node.Name] = node
		names = append(names, node.Name)
	}
	var courses []readiness.Course
	var changes []change
	var others []string
	for _, course := range readiness.Forecast(
		cluster.Nodes, names, cluster.Renewed, silence.Grace, silence.Policy, silence.At,
	) {
		node := fallen[course.Node]
		switch {
		case node != nil:
			courses = append(courses, course)
			changes = append(changes, silentChange(node, course, silence.At))
		case len(course.Steps) > 0 && !readiness.IsReady(cluster.Node(course.Node)):
			others = append(others, course.Node)
		}
	}
	plan := begin(cluster, silence.At)
	plan.Silent = true
	fill(plan, cluster, changes)
	for i := range courses {
		tell(&plan.Nodes[i], courses[i])
		plan.Summary.Held += count(courses[i].Held != nil)
	}
	plan.Notes = append(plan.Notes, silenceNotes(cluster.Renewed, silence.Nodes, courses, others, plan.Summary.Leave)...)
	return plan
}

// silentChange is what happens to a silent node. It keeps its taints until its first step.
func silentChange(node *corev1.Node, course readiness.Course, at time.Time) change {
	before := state.Tainted(node, at)
	c := change{
		Node: node, silent: true, edited: node.Spec.Taints,
		before: before, phases: []phase{{at, before}},
	}
	for _, step := range course.Steps {
		known := c.phases[len(c.phases)-1].taints
		c.phases = append(c.phases, phase{step.At, verdict.Advance(known, step.Taints, verdict.SeenAt(step.At))})
		c.edited = step.Taints
	}
	return c
}

// tell records when a node becomes silent and when it gets its taints.
func tell(node *cliv1alpha1.PlannedNode, course readiness.Course) {
	node.SilentAt = policies.MicroTime(course.SilentAt)
	for _, step := range course.Steps {
		taints := state.FormatAll(step.Taints)
		node.Steps = append(node.Steps, cliv1alpha1.TaintStep{At: metav1.NewMicroTime(step.At), Taints: taints})
		news := slices.Contains(taints, unreachableNoExecute) && !slices.Contains(node.Before, unreachableNoExecute)
		if news && node.TaintedAt == nil {
			node.TaintedAt = policies.MicroTime(step.At)
		}
	}
	if course.Held != nil {
		node.Held = course.Held.String()
	}
}

const unreachableNoExecute = corev1.TaintNodeUnreachable + ":" + string(corev1.TaintEffectNoExecute)

// silenceNotes says what a plan of silent nodes cannot know, and which other nodes it involves.
func silenceNotes(
	renewed map[string]time.Time, nodes []*corev1.Node, courses []readiness.Course, others []string, leave int,
) []string {
	var notes []string
	if together := mostTogether(courses); together > 1 {
		notes = append(notes, fmt.Sprintf("%d nodes become Unknown at the same instant. The plan takes them in the order of their names; "+
			"in a cluster, their order is random.", together))
	}
	var never, unheard []string
	for _, node := range nodes {
		ready := readiness.Condition(node, corev1.NodeReady)
		switch _, known := renewed[node.Name]; {
		case known:
		case ready == nil:
			never = append(never, node.Name)
		case ready.Status != corev1.ConditionUnknown:
			unheard = append(unheard, node.Name)
		}
	}
	if len(unheard) > 0 {
		notes = append(notes, "The last Lease renewal of "+sentence.Some(unheard)+
			" is not known, so the plan assumes that it happened just now. Kubelets renew every 10s, so all of this may happen up to 10s earlier.")
	}
	if len(never) > 0 {
		notes = append(notes, "No Ready condition is known for "+sentence.Some(never)+
			". The grace period of a node that has never posted its status begins when it is created.")
	}
	if leave > 0 {
		notes = append(notes, "A pod that leaves a silent node is deleted, but stays Terminating until the node is back or the Node object is deleted. "+
			"A StatefulSet creates no successor before that.")
	}
	if len(others) > 0 {
		notes = append(notes, "Meanwhile, other nodes that are not ready get or lose taints: "+sentence.Enumerate(others)+".")
	}
	return notes
}

// mostTogether returns the largest number of nodes that become Unknown at the same instant.
func mostTogether(courses []readiness.Course) int {
	fallen, most := map[time.Time]int{}, 0
	for _, course := range courses {
		if !course.SilentAt.IsZero() {
			fallen[course.SilentAt]++
			most = max(most, fallen[course.SilentAt])
		}
	}
	return most
}
