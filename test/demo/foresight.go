// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// foresight is what the kubectl plugin says will happen.
type foresight struct {
	at     time.Time
	pods   int                     // in all, if it says so
	nodes  []string                // whose taints change
	taints map[string]time.Time    // when node health taints them NoExecute, if it does
	leaves map[types.UID]time.Time // when the pods leave that do
}

// foresee runs the plugin to see what a taint of the first node would do now.
func foresee(spec string) Step {
	return func(ctx context.Context, p *Play) error {
		var plan cliv1alpha1.TaintPlan
		return stageOf(p).foresee(ctx, &plan, func() foresight { return ofPlan(&plan) }, "plan", p.NodeName(first), spec)
	}
}

// outage is for how long the plugin simulates that nodes are silent. They come back sooner.
const outage = time.Minute

// foreseeSilence runs the plugin to see what would happen if nodes fell silent now.
func foreseeSilence(nodes ...string) Step {
	return func(ctx context.Context, p *Play) error {
		var report cliv1alpha1.SimulationReport
		args := slices.Concat([]string{"simulate", "--silent", "--for=" + outage.String()}, fullNames(p, nodes), healthFlags)
		return stageOf(p).foresee(ctx, &report, func() foresight { return ofReport(&report) }, args...)
	}
}

func ofPlan(plan *cliv1alpha1.TaintPlan) foresight {
	saw := foresight{at: plan.At.Time, pods: len(plan.Pods), leaves: map[types.UID]time.Time{}}
	for _, node := range plan.Nodes {
		saw.nodes = append(saw.nodes, node.Name)
	}
	for _, pod := range plan.Pods {
		if pod.Leaves {
			saw.leaves[pod.UID] = pod.Due.Time
		}
	}
	return saw
}

func ofReport(report *cliv1alpha1.SimulationReport) foresight {
	saw := foresight{at: report.At.Time, taints: map[string]time.Time{}, leaves: map[types.UID]time.Time{}}
	for _, node := range report.Nodes {
		saw.nodes = append(saw.nodes, node.Name)
		for _, step := range node.Steps {
			if _, known := saw.taints[node.Name]; !known && slices.Contains(step.Taints, unreachable+":NoExecute") {
				saw.taints[node.Name] = saw.at.Add(step.At.Duration)
			}
		}
	}
	for _, pod := range report.Pods {
		if pod.LeavesAt != nil && pod.UID != "" { // a successor has none
			saw.leaves[pod.UID] = saw.at.Add(pod.LeavesAt.Duration)
		}
	}
	return saw
}

func (s *stage) foresee(ctx context.Context, answer any, of func() foresight, args ...string) error {
	if s == nil {
		return nil
	}
	s.command("kubectl taintkeeper %s", strings.Join(args, " "))
	out, err := exec.CommandContext(ctx, s.plugin, append(args, "--output=json", "--kubeconfig="+s.kubeconfig)...).Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w%s", s.plugin, strings.Join(args, " "), err, stderrOf(err))
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("read what %s says: %w", s.plugin, err)
	}
	s.foresight = of()
	s.say("%s%s", indent, s.foresight)
	return nil
}

// stderrOf returns what a failed program printed.
func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return ": " + strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}

// String says it in one line.
func (f foresight) String() string {
	if turns := f.turns(); len(turns) > 0 {
		var after []string
		for _, at := range turns {
			after = append(after, fmt.Sprintf("%.0f s", at.Sub(f.at).Seconds()))
		}
		return fmt.Sprintf("Predicted: NoExecute after %s; then %s %s, if the zone does not come back.",
			strings.Join(after, " and "), sentence.Counted(len(f.leaves), "pod"),
			sentence.Agree(len(f.leaves), "leaves", "leave"))
	}
	var last time.Duration
	for _, at := range f.leaves {
		last = max(last, at.Sub(f.at))
	}
	return fmt.Sprintf("Predicted: %d of %s leave, the last after %.0f s.",
		len(f.leaves), sentence.Counted(f.pods, "pod"), last.Seconds())
}

// turns are when node health taints nodes NoExecute, in turn.
func (f foresight) turns() []time.Time {
	return slices.SortedFunc(maps.Values(f.taints), time.Time.Compare)
}

// asForeseen wants everything to happen as the plugin said.
func asForeseen(_ context.Context, p *Play) (Finding, error) {
	if s := stageOf(p); s != nil {
		return compare(p, s.foresight), nil
	}
	return Finding{Right: true}, nil
}

// compare looks for differences from what the plugin said. Which node of a zone comes first is random, so the times of
// pods count from the taint of their node.
func compare(p *Play, said foresight) Finding {
	found := Finding{Right: true}
	var came []time.Time
	for _, name := range said.nodes {
		set := firstNoExecute(p, name, said.at).From
		planned, ok := said.taints[name]
		if !ok {
			planned = said.at
		}
		came = append(came, set)
		for _, r := range p.Rows(set) {
			if r.Spec.NodeName == name {
				found = found.And(asSaid(p, r, said, set, planned))
			}
		}
	}
	slices.SortFunc(came, time.Time.Compare)
	for i, at := range said.turns() {
		if !foreseen(p, at, came[i]) {
			seen := fmt.Sprintf("a node was tainted %s away from the planned time", Seconds(came[i].Sub(at)))
			found = found.And(Finding{Seen: seen})
		}
	}
	return found
}

// asSaid compares what happened to a pod since a taint was set with what the plugin said, by which it is set at another
// instant.
func asSaid(p *Play, r Row, said foresight, set, tainted time.Time) Finding {
	due, leaves := said.leaves[r.UID]
	switch {
	case r.CreationTimestamp.After(said.at) && !leaves, !leaves && !r.Left, r.Stays() && r.Was != Never:
		return Finding{Right: true}
	case leaves != r.Left:
		return Finding{Seen: fmt.Sprintf("%s left: %t, according to the plan: %t", r.Name, r.Left, leaves)}
	}
	planned := due.Sub(tainted)
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
