// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plan"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// renewal is how often a kubelet of the demo gives a sign of life. By so much a node may have been silent before the act.
const renewal = leaseSeconds * time.Second / 4

// foresee returns what `kubectl taintkeeper plan --silent` says of nodes before they fall silent.
func (s *stage) foresee(ctx context.Context, names ...string) (*cliv1alpha1.TaintPlan, error) {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes for a plan: %w", err)
	}
	pods, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods for a plan: %w", err)
	}
	return planOfSilence(nodes.Items, pods.Items, time.Now(), names...), nil
}

// planOfSilence makes the plan with the flags that the taintkeeper of the demo has.
func planOfSilence(nodes []corev1.Node, pods []corev1.Pod, at time.Time, names ...string) *cliv1alpha1.TaintPlan {
	cluster := &plan.Cluster{}
	silence := plan.Silence{
		At: at, Rule: rule,
		Grace: readiness.Grace{Monitor: grace, Startup: readiness.DefaultStartupGrace},
		Policy: readiness.Policy{
			Rate: float32(1 / taintEvery.Seconds()), SecondaryRate: readiness.DefaultSecondaryRate,
			FullDisruptionRate: float32(1 / taintEvery.Seconds()),
			LargeZone:          readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
		},
	}
	for i := range nodes {
		cluster.Nodes = append(cluster.Nodes, &nodes[i])
		if slices.Contains(names, nodes[i].Name) {
			silence.Nodes = append(silence.Nodes, &nodes[i])
		}
	}
	for i := range pods {
		cluster.Pods = append(cluster.Pods, &pods[i])
	}
	return plan.MakeSilent(cluster, silence)
}

// sayForeseen says what a plan has the nodes' taints and pods do.
func (s *stage) sayForeseen(made *cliv1alpha1.TaintPlan) {
	var names, taints []string
	for _, node := range made.Nodes {
		names = append(names, node.Name)
	}
	for _, at := range turnsOf(made) {
		taints = append(taints, fmt.Sprintf("%d s", int(at.Sub(made.At.Time).Seconds())))
	}
	s.say("%s$ kubectl taintkeeper plan --silent %s --node-monitor-grace-period=%s --node-eviction-rate=%g", indent,
		strings.Join(names, " "), grace, 1/taintEvery.Seconds())
	s.say("%sForeseen: NoExecute after %s; %d of %s would leave if the zone did not come back.", indent,
		strings.Join(taints, " and "), made.Summary.Leave, plural(made.Summary.Pods, "pod"))
}

// turnsOf returns when the nodes of a plan are tainted NoExecute, in turn.
func turnsOf(made *cliv1alpha1.TaintPlan) []time.Time {
	var all []time.Time
	for _, node := range made.Nodes {
		if node.TaintedAt != nil {
			all = append(all, node.TaintedAt.Time)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// unforeseen says where what happened differs from a plan that was made before. Which node comes first is a matter of luck.
func (v *vigil) unforeseen(made *cliv1alpha1.TaintPlan, seen []sighting) []string {
	turns := turnsOf(made)
	if len(turns) != len(v.nodes) {
		return []string{fmt.Sprintf("by the plan %d nodes are tainted, and %d were to be", len(turns), len(v.nodes))}
	}
	var all []string
	nodes := slices.SortedFunc(slices.Values(v.nodes), func(a, b *watched) int { return a.leave.after.Compare(b.leave.after) })
	for i, w := range nodes {
		if late := w.leave.before.Sub(turns[i]); !foreseen(late) {
			all = append(all, fmt.Sprintf("node %s was tainted %s from when the plan said", w.name, late.Round(time.Millisecond)))
		}
		all = append(all, w.unforeseen(made, seen)...)
	}
	return all
}

// unforeseen says which pods of a node left otherwise than by the plan: from the node's taint on, as the order of nodes is luck.
func (w *watched) unforeseen(made *cliv1alpha1.TaintPlan, seen []sighting) []string {
	tainted := made.Nodes[slices.IndexFunc(made.Nodes, func(n cliv1alpha1.PlannedNode) bool { return n.Name == w.name })].TaintedAt
	var all []string
	for _, r := range w.rows(seen) {
		if r.left.IsZero() { // the report says whether it was due
			continue
		}
		i := slices.IndexFunc(made.Pods, func(p cliv1alpha1.PlannedPod) bool { return p.UID == r.pod.UID })
		switch {
		case i < 0 || !made.Pods[i].Leaves:
			all = append(all, fmt.Sprintf("pod %s left, and the plan had it stay", r.pod.Name))
		case !foreseen(r.left.Sub(w.leave.after) - made.Pods[i].Due.Sub(tainted.Time)):
			all = append(all, fmt.Sprintf("pod %s left %s after its node's taint, and the plan said %s", r.pod.Name,
				seconds(r.left.Sub(w.leave.after)), seconds(made.Pods[i].Due.Sub(tainted.Time))))
		}
	}
	return all
}

// foreseen reports whether something came as a plan said: no longer before than kubelets may have been silent already, with what
// an instant to the second hides, and no later than still counts as kept.
func foreseen(late time.Duration) bool {
	return late >= -renewal-100*time.Millisecond && late <= tolerableLateness
}
