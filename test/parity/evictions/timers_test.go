// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/arena"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// lookByTimers looks at a pod on a tainted node as builtin.Timers says that upstream does.
func (m *model) lookByTimers(known *knownPod, node *knownNode) {
	timers := builtin.Timers{Rule: verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: comparisonOperators()}}}
	now := arena.Epoch.Add(m.at)
	var timer verdict.Verdict
	if known.work != never {
		timer.Leaves, timer.Due = true, arena.Epoch.Add(known.work)
	}
	var onNode []verdict.Taint
	for _, taint := range node.noExecute() {
		onNode = append(onNode, verdict.Taint{Taint: taint, Since: now})
	}
	pod := verdict.Pod{Tolerations: known.object.Spec.Tolerations}
	known.work = never
	if timer = timers.Look(timer, pod, onNode, now); timer.Leaves {
		known.work = min(timer.Due.Sub(arena.Epoch), ages)
	}
}
