// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/nodehealth"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Silence says which nodes give no sign of life, from when on, and how the controller goes about it.
type Silence struct {
	// Nodes are the nodes that fall silent.
	Nodes []*corev1.Node
	// At is when they do.
	At time.Time
	// Grace is for how long they may, and Policy how fast they are tainted.
	Grace  nodehealth.Grace
	Policy nodehealth.Policy
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
}

// MakeSilent returns what would happen if nodes fell silent: they are tainted as package nodehealth does it, and then pods leave.
func MakeSilent(cluster *Cluster, silence Silence) *cliv1alpha1.TaintPlan {
	fallen := map[string]*corev1.Node{}
	var names []string
	for _, node := range silence.Nodes {
		fallen[node.Name] = node
		names = append(names, node.Name)
	}
	var courses []nodehealth.Course
	var changes []change
	var others []string
	for _, course := range nodehealth.Forecast(cluster.Nodes, names, silence.Grace, silence.Policy, silence.At) {
		node := fallen[course.Node]
		switch {
		case node != nil:
			courses = append(courses, course)
			changes = append(changes, silentChange(node, course, silence.At))
		case len(course.Steps) > 0 && !isReadyNode(cluster.Node(course.Node)):
			others = append(others, course.Node)
		}
	}
	plan := begin(cluster, silence.At)
	plan.Silent = true
	fill(plan, cluster, silence.Rule, changes)
	for i := range courses {
		tell(&plan.Nodes[i], courses[i])
		plan.Summary.Held += count(courses[i].Held != nil)
	}
	plan.Notes = append(plan.Notes, silenceNotes(silence.Nodes, courses, others)...)
	return plan
}

// silentChange is what becomes of a silent node. Until its first step it has the taints that it has.
func silentChange(node *corev1.Node, course nodehealth.Course, at time.Time) change {
	before := verdict.Advance(nil, node.Spec.Taints, at)
	c := change{
		name: node.Name, zone: node.Labels[corev1.LabelTopologyZone],
		taints: node.Spec.Taints, edited: node.Spec.Taints,
		before: before, phases: []phase{{at, before}},
	}
	for _, step := range course.Steps {
		known := c.phases[len(c.phases)-1].taints
		c.phases = append(c.phases, phase{step.At, verdict.Advance(known, step.Taints, step.At)})
		c.edited = step.Taints
	}
	return c
}

// tell says when a node becomes silent and gets its taints.
func tell(node *cliv1alpha1.PlannedNode, course nodehealth.Course) {
	node.SilentAt = microTime(course.SilentAt)
	for _, step := range course.Steps {
		node.Steps = append(node.Steps, cliv1alpha1.TaintStep{At: metav1.NewMicroTime(step.At), Taints: formatAll(step.Taints)})
		if node.TaintedAt == nil && !slices.Contains(node.Before, unreachableNoExecute) && hasUnreachable(step.Taints) {
			node.TaintedAt = microTime(step.At)
		}
	}
	if course.Held != nil {
		node.Held = course.Held.String()
	}
}

const unreachableNoExecute = corev1.TaintNodeUnreachable + ":" + string(corev1.TaintEffectNoExecute)

func hasUnreachable(taints []corev1.Taint) bool {
	return slices.Contains(formatAll(taints), unreachableNoExecute)
}

func microTime(at time.Time) *metav1.MicroTime {
	if at.IsZero() {
		return nil
	}
	micro := metav1.NewMicroTime(at)
	return &micro
}

func isReadyNode(node *corev1.Node) bool {
	ready := readyCondition(node)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return nil
	}
	return &node.Status.Conditions[i]
}

// silenceNotes says what a plan of silent nodes cannot know, and what it is about besides them.
func silenceNotes(nodes []*corev1.Node, courses []nodehealth.Course, others []string) []string {
	var notes []string
	if together := mostTogether(courses); together > 1 {
		notes = append(notes, fmt.Sprintf("%d nodes fall silent at one instant and are taken by name. In a cluster that is a matter of luck: "+
			"kubelets give a sign of life every ten seconds, so the first may be tainted ten seconds before the last is noticed, "+
			"while the state of its zone is still another.", together))
	}
	var never []string
	for _, node := range nodes {
		if readyCondition(node) == nil {
			never = append(never, node.Name)
		}
	}
	if len(never) > 0 {
		notes = append(notes, "No Ready condition is known of "+namesOf(never)+": the grace period of a node that has never posted its status begins with its creation.")
	}
	if len(others) > 0 {
		notes = append(notes, "Other nodes are not ready, and take turns or lose taints in the same time: "+namesOf(others)+".")
	}
	return notes
}

// mostTogether returns how many nodes become silent at the instant at which most do.
func mostTogether(courses []nodehealth.Course) int {
	fallen, most := map[time.Time]int{}, 0
	for _, course := range courses {
		if !course.SilentAt.IsZero() {
			fallen[course.SilentAt]++
			most = max(most, fallen[course.SilentAt])
		}
	}
	return most
}

// namesOf names some nodes, and counts the rest.
func namesOf(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
