// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/summary"
	"github.com/taintkeeper/taintkeeper/internal/plugin/web"
)

// printPlan prints a plan for people: the answer, what needs attention, and then every pod.
func printPlan(o *output.Printer, plan *cliv1alpha1.TaintPlan) error {
	if o.Format == output.Name || o.NoHeaders {
		o.Notes(plan.Notes)
	}
	if o.Format == output.Name {
		for i := range plan.Pods {
			if pod := &plan.Pods[i]; pod.Leaves {
				o.Line("%s", output.PodName(pod.Namespace, pod.Name))
			}
		}
		return nil
	}
	if !o.NoHeaders {
		for _, line := range summary.Lines(plan) {
			o.Line("%s", line)
		}
	}
	if len(plan.Pods) == 0 {
		return nil
	}
	if !o.NoHeaders {
		o.Line("")
	}
	columns := columnsOf(plan)
	rows := make([]output.PodRow, 0, len(plan.Pods))
	for i := range plan.Pods {
		rows = append(rows, podRow(o, plan, &plan.Pods[i], columns))
	}
	return o.Pods(summary.Answer(plan), columns, rows)
}

// columnsOf returns the columns of a plan, the most important first, without those that would be empty.
func columnsOf(plan *cliv1alpha1.TaintPlan) []string {
	columns := []string{output.ColumnLeaves, "At", output.ColumnPod}
	if len(plan.Policies) > 0 {
		columns = []string{output.ColumnDue, "At", output.ColumnPod, "Held by"}
	}
	if summary.AsksWhereTo(plan) {
		columns = append(columns, "Where to", "+Fits")
	}
	columns = append(columns, output.ColumnNode, output.ColumnTaint)
	if slices.ContainsFunc(plan.Pods, altersWhatWas) {
		columns = append(columns, "Change")
	} else {
		columns = append(columns, "+Change")
	}
	return append(columns, output.ColumnToleration, "+Owner", "+Priority", "+Grace", "+Budgets", "+Before")
}

// altersWhatWas reports whether some pod is already due at some time, and the plan changes that.
func altersWhatWas(pod cliv1alpha1.PlannedPod) bool {
	return pod.Change != cliv1alpha1.ChangeNone && pod.Change != cliv1alpha1.ChangeLeaves
}

func podRow(
	o *output.Printer, plan *cliv1alpha1.TaintPlan, pod *cliv1alpha1.PlannedPod, columns []string,
) output.PodRow {
	leaves, at, before := "stays", "", ""
	if pod.Leaves {
		leaves, at = output.Relative(plan.At.Time, pod.Due.Time), o.Instant(plan.At.Time, pod.Due.Time)
	}
	if pod.About {
		leaves = output.About(plan.At.Time, pod.Due.Time)
	}
	if pod.DueBefore != nil {
		before = o.Instant(plan.At.Time, pod.DueBefore.Time)
	}
	held := output.HeldBy(plan.At.Time, pod.Answer)
	cells := map[string]string{
		output.ColumnLeaves: leaves, output.ColumnDue: leaves, "At": at, "Held by": held,
		"Where to": whereTo(pod.WhereTo), "+Fits": fits(pod.WhereTo),
		output.ColumnNode: pod.Node, output.ColumnTaint: pod.Taint, output.ColumnToleration: planTolerationOf(pod),
		"+Owner": output.OwnerOf(pod.Owner), "+Priority": strconv.Itoa(int(pod.Priority)),
		"+Grace":   strconv.FormatInt(pod.GracePeriodSeconds, 10) + "s",
		"+Budgets": strings.Join(pod.Budgets, ","), "+Before": before,
	}
	change := strings.ToLower(string(pod.Change))
	cells["Change"], cells["+Change"] = change, change
	row := output.PodRow{Namespace: pod.Namespace, Name: pod.Name, Owner: pod.Owner, With: leaves + held}
	if pod.WhereTo != nil && pod.WhereTo.Node == "" {
		row.With += cells["Where to"]
	}
	for _, column := range columns {
		row.Cells = append(row.Cells, cells[column])
	}
	return row
}

func planTolerationOf(pod *cliv1alpha1.PlannedPod) string {
	switch {
	case pod.Reason != "":
		return pod.Reason
	case pod.Toleration != nil:
		return output.Toleration(*pod.Toleration)
	case pod.Taint != "":
		return "none"
	}
	return ""
}

func whereTo(where *cliv1alpha1.WhereTo) string {
	switch {
	case where == nil:
		return ""
	case where.NoSuccessor:
		return "no successor"
	case where.Reason != "", where.Bound:
		return "uncertain"
	case where.Node == "":
		return "nowhere"
	}
	return where.Node
}

// fits says how many nodes would take a pod. It marks an upper bound.
func fits(where *cliv1alpha1.WhereTo) string {
	switch {
	case where == nil || where.Reason != "":
		return ""
	case where.Bound:
		return fmt.Sprintf("<=%d", where.Fits)
	}
	return fmt.Sprint(where.Fits)
}

// printPage prints a plan as one page.
func printPage(o *output.Printer, plan *cliv1alpha1.TaintPlan) error {
	at := output.Absolute(plan.At.Time)
	return web.Write(o.Env.Out, web.Page{
		Kind: web.Plan, Title: "Plan: " + strings.Join(plan.Taints, " "),
		Answer: summary.Answer(plan), Losses: slices.Concat(summary.Policies(plan), summary.Losses(plan)),
		Facts: pageFacts(summary.Cluster(plan), web.Fact{Name: "Taints", Value: strings.Join(plan.Taints, " ")}, web.Fact{Name: "At", Value: at}),
		Workloads: web.NewTable([]string{"Workload", "Leave", "Replicas", "Lowest"}, plan.Workloads, func(w cliv1alpha1.PlannedWorkload) []string {
			return []string{w.Kind + " " + output.FullName(w.Namespace, w.Name), strconv.Itoa(w.Leave), strconv.Itoa(w.Replicas), strconv.Itoa(w.Lowest)}
		}),
		Footer: "A plan says what would happen to the cluster in its state at " + at + ". It did not set any taints. -o json prints the same plan.",
		Data:   plan,
	})
}

// pageFacts are facts with the cluster, if there is one.
func pageFacts(cluster string, facts ...web.Fact) []web.Fact {
	if cluster == "" {
		return facts
	}
	return slices.Insert(facts, 0, web.Fact{Name: "Cluster", Value: cluster})
}
