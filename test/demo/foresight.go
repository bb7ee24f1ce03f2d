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
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// foresee runs the kubectl plugin to see what a taint of the first node would do now.
func foresee(spec string) Step {
	return func(ctx context.Context, p *Play) error {
		return stageOf(p).foresee(ctx, p.NodeName(first), spec)
	}
}

// foreseeSilence runs the plugin to see what would happen if nodes fell silent now.
func foreseeSilence(nodes ...string) Step {
	return func(ctx context.Context, p *Play) error {
		return stageOf(p).foresee(ctx, slices.Concat([]string{"--unreachable"}, fullNames(p, nodes), healthFlags)...)
	}
}

func (s *stage) foresee(ctx context.Context, args ...string) error {
	if s == nil {
		return nil
	}
	args = append([]string{"plan"}, args...)
	s.command("kubectl taintkeeper %s", strings.Join(args, " "))
	out, err := exec.CommandContext(ctx, s.plugin, append(args, "--output=json", "--kubeconfig="+s.kubeconfig)...).Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w%s", s.plugin, strings.Join(args, " "), err, stderrOf(err))
	}
	s.plan = cliv1alpha1.TaintPlan{}
	if err := json.Unmarshal(out, &s.plan); err != nil {
		return fmt.Errorf("read the plan of %s: %w", s.plugin, err)
	}
	s.say("%s%s", indent, summary(s.plan))
	return nil
}

// stderrOf returns what a failed program printed.
func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return ": " + strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}

func summary(plan cliv1alpha1.TaintPlan) string {
	text := fmt.Sprintf("%d of %s leave", plan.Summary.Leave, sentence.Counted(plan.Summary.Pods, "pod"))
	if plan.Silent {
		var turns []string
		for _, at := range taintTimesOf(plan) {
			turns = append(turns, fmt.Sprintf("%.0f s", at.Sub(plan.At.Time).Seconds()))
		}
		return fmt.Sprintf("Predicted: NoExecute after %s; then %s, if the zone does not come back.", strings.Join(turns, " and "), text)
	}
	var last time.Duration
	for _, pod := range plan.Pods {
		if pod.Leaves {
			last = max(last, pod.Due.Sub(plan.At.Time))
		}
	}
	return fmt.Sprintf("Predicted: %s, the last after %.0f s.", text, last.Seconds())
}

// taintTimesOf returns when the nodes of a plan are tainted NoExecute, in turn.
func taintTimesOf(plan cliv1alpha1.TaintPlan) []time.Time {
	var all []time.Time
	for _, node := range plan.Nodes {
		if node.TaintedAt != nil {
			all = append(all, node.TaintedAt.Time)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// asForeseen wants everything to happen as planned.
func asForeseen(_ context.Context, p *Play) (Finding, error) {
	if s := stageOf(p); s != nil {
		return compare(p, s.plan), nil
	}
	return Finding{Right: true}, nil
}

// compare looks for differences from the plan. Which node of a zone comes first is random, so the times of pods count
// from the taint of their node.
func compare(p *Play, plan cliv1alpha1.TaintPlan) Finding {
	found := Finding{Right: true}
	var came []time.Time
	for _, node := range plan.Nodes {
		set := firstNoExecute(p, node.Name, plan.At.Time).From
		planned := plan.At.Time
		if node.TaintedAt != nil {
			planned = node.TaintedAt.Time
		}
		came = append(came, set)
		for _, r := range p.Rows(set) {
			if r.Spec.NodeName == node.Name {
				found = found.And(asPlanned(p, r, plan, set, planned))
			}
		}
	}
	slices.SortFunc(came, time.Time.Compare)
	for i, at := range taintTimesOf(plan) {
		if !foreseen(p, at, came[i]) {
			seen := fmt.Sprintf("a node was tainted %s away from the planned time", Seconds(came[i].Sub(at)))
			found = found.And(Finding{Seen: seen})
		}
	}
	return found
}

// asPlanned compares what happened to a pod since a taint was set with the plan, in which it is set at another instant.
func asPlanned(p *Play, r Row, plan cliv1alpha1.TaintPlan, set, tainted time.Time) Finding {
	i := slices.IndexFunc(plan.Pods, func(pod cliv1alpha1.PlannedPod) bool { return pod.UID == r.UID })
	switch {
	case i < 0 && r.CreationTimestamp.After(plan.At.Time):
		return Finding{Right: true}
	case i < 0:
		return Finding{Seen: r.Name + " is not in the plan"}
	case !plan.Pods[i].Leaves && !r.Left, r.Stays() && r.Was != Never:
		return Finding{Right: true}
	case plan.Pods[i].Leaves != r.Left:
		return Finding{Seen: fmt.Sprintf("%s left: %t, according to the plan: %t", r.Name, r.Left, plan.Pods[i].Leaves)}
	}
	planned := plan.Pods[i].Due.Sub(tainted)
	if !foreseen(p, set.Add(planned), set.Add(r.After)) {
		seen := fmt.Sprintf("%s left after %s, according to the plan after %s", r.Name, Seconds(r.After), Seconds(planned))
		return Finding{Seen: seen}
	}
	return Finding{Right: true}
}

// foreseen reports whether something came as planned. It may be early by the time for which kubelets may already have
// been silent, plus the rounding to a second, and as late as an eviction.
func foreseen(p *Play, planned, came time.Time) bool {
	late := came.Sub(planned)
	return late >= -renewal-100*time.Millisecond && late <= p.Patience()+p.Stalled(planned, came)
}

// firstNoExecute is when a node first had a NoExecute taint that it did not have at an instant.
func firstNoExecute(p *Play, fullName string, after time.Time) oracle.Span {
	for _, version := range p.History(strings.TrimPrefix(fullName, p.NodeName(""))) {
		if version.At.To.After(after) && len(taints.NoExecute(version.Taints)) > 0 {
			return version.At
		}
	}
	return oracle.At(oracle.Never)
}
