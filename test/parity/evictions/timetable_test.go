// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import "github.com/taintkeeper/taintkeeper/test/parity/arena"

// Timetable implements arena.Trial: it writes down a trial: what happened when, and then, for each pod, when it had to
// leave and when it was deleted.
func (t *trial) Timetable() string {
	var history arena.Timetable
	for _, node := range t.history.Nodes {
		history.Before(node)
	}
	for _, pod := range t.history.Pods {
		history.Before(pod)
	}
	for _, next := range t.history.occasions() {
		if next.step == nil {
			history.Starts(next.at)
			continue
		}
		history.At(next.at, next.step.Do)
	}
	rows := [][]string{{"POD", "RULE", "OURS", "UPSTREAM", "MODEL OF UPSTREAM", "DIFFERENCE"}}
	explanation, faults := t.explain(), t.Faults()
	for _, uid := range t.uids() {
		because := "unexplained"
		if set, ok := explanation[uid]; ok {
			because = set.String()
		}
		if fault, ok := arena.FaultOf(uid, faults); ok {
			because = string(fault)
		}
		rows = append(rows, []string{uid, when(t.rule[uid]), when(t.ours[uid]), when(t.upstream[uid]), when(t.model[uid]), because})
	}
	return history.String() + "\n" + arena.Table(rows...)
}
