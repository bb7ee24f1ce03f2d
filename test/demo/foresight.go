// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// renewal is how often a kubelet of the demo gives a sign of life. By so much a node may have been silent before the
// act.
const renewal = leaseSeconds * time.Second / 4

// healthFlags are those of taintkeeper and of the plan.
var healthFlags = []string{
	"--node-monitor-grace-period=" + grace.String(),
	fmt.Sprintf("--node-eviction-rate=%g", 1/taintEvery.Seconds()),
}

// foresee asks the kubectl plugin what would happen if nodes fell silent now.
func (s *stage) foresee(ctx context.Context, names ...string) (*cliv1alpha1.TaintPlan, error) {
	args := slices.Concat([]string{"plan", "--silent"}, names, healthFlags)
	s.say("%s$ kubectl taintkeeper %s", indent, strings.Join(args, " "))
	out, err := exec.CommandContext(ctx, s.plugin, append(args, "--output=json", "--kubeconfig="+s.kubeconfig)...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w%s", s.plugin, strings.Join(args, " "), err, stderrOf(err))
	}
	made := &cliv1alpha1.TaintPlan{}
	if err := json.Unmarshal(out, made); err != nil {
		return nil, fmt.Errorf("read the plan of %s: %w", s.plugin, err)
	}
	var taints []string
	for _, at := range turnsOf(made) {
		taints = append(taints, fmt.Sprintf("%d s", int(at.Sub(made.At.Time).Seconds())))
	}
	s.say("%sForeseen: NoExecute after %s; then %d of %s leave, if the zone does not come back.", indent,
		strings.Join(taints, " and "), made.Summary.Leave, plural(made.Summary.Pods, "pod"))
	return made, nil
}

// stderrOf returns what a program printed that failed.
func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return ": " + strings.TrimSpace(string(exit.Stderr))
	}
	return ""
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

// unforeseen says where what happened differs from a plan that was made before. Which node comes first is a matter of
// luck.
func (v *vigil) unforeseen(made *cliv1alpha1.TaintPlan, seen []sighting) []string {
	turns := turnsOf(made)
	if len(turns) != len(v.nodes) {
		return []string{fmt.Sprintf("by the plan %d nodes are tainted, and %d were to be", len(turns), len(v.nodes))}
	}
	var all []string
	nodes := slices.SortedFunc(slices.Values(v.nodes), func(a, b *watched) int {
		return a.leave.after.Compare(b.leave.after)
	})
	for i, w := range nodes {
		if late := w.leave.before.Sub(turns[i]); !foreseen(late) {
			late = late.Round(time.Millisecond)
			all = append(all, fmt.Sprintf("node %s was tainted %s from when the plan said", w.name, late))
		}
		for _, r := range w.rows(seen) {
			if problem := v.unforeseenPod(w, r, made); problem != "" {
				all = append(all, problem)
			}
		}
	}
	return all
}

// unforeseenPod says how a pod left otherwise than by the plan, from its node's taint on. The zone comes back before
// all have left who were to.
func (v *vigil) unforeseenPod(w *watched, r row, made *cliv1alpha1.TaintPlan) string {
	i := slices.IndexFunc(made.Pods, func(p cliv1alpha1.PlannedPod) bool { return p.UID == r.pod.UID })
	switch {
	case i < 0:
		return fmt.Sprintf("pod %s is not in the plan", r.pod.Name)
	case !made.Pods[i].Leaves && !r.left.IsZero():
		return fmt.Sprintf("pod %s left, and the plan had it stay", r.pod.Name)
	case !made.Pods[i].Leaves:
		return ""
	}
	ofName := func(n cliv1alpha1.PlannedNode) bool { return n.Name == w.name }
	tainted := made.Nodes[slices.IndexFunc(made.Nodes, ofName)].TaintedAt
	planned, done := made.Pods[i].Due.Sub(tainted.Time), r.left.Sub(w.leave.after)
	switch {
	case r.left.IsZero() && w.leave.before.Add(planned+tolerableLateness).Before(v.back):
		return fmt.Sprintf("pod %s stayed, and the plan had it leave", r.pod.Name)
	case !r.left.IsZero() && !foreseen(done-planned):
		return fmt.Sprintf("pod %s left %s after its node's taint, and the plan said %s", r.pod.Name, seconds(done), seconds(planned))
	}
	return ""
}

// foreseen reports whether something came as a plan said: no longer before than kubelets may have been silent already,
// with what an instant to the second hides, and no later than still counts as kept.
func foreseen(late time.Duration) bool {
	return late >= -renewal-100*time.Millisecond && late <= tolerableLateness
}
