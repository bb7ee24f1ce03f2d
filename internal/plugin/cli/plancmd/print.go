// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plancmd

import (
	"slices"
	"strconv"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/summary"
)

// printPlan prints a plan for a person: the answer, what to look at, and then every pod.
func printPlan(o *output.Printer, plan *cliv1alpha1.TaintPlan) error {
	if o.Format == output.Name || o.NoHeaders {
		o.Notes(plan.Notes)
	}
	if o.Format == output.Name {
		for i := range plan.Pods {
			if pod := &plan.Pods[i]; pod.Leaves {
				o.Line("pod/%s", pod.Name)
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
	rows := make([][]any, 0, len(plan.Pods))
	for i := range plan.Pods {
		rows = append(rows, podRow(plan, &plan.Pods[i]))
	}
	columns := []string{
		"Namespace", "Pod", "Node", "Leaves", "At", "Change", "Taint", "Toleration", "Owner",
		"+Priority", "+Grace", "+Budgets", "+Before",
	}
	columns, rows = withHeldBy(plan, columns, rows)
	if summary.AsksWhereTo(plan) {
		columns, rows = withWhereTo(plan, columns, rows)
	}
	return o.Table(columns, rows)
}

// withHeldBy adds which policies keep the pods to a table, behind when they leave, if there are policies.
func withHeldBy(plan *cliv1alpha1.TaintPlan, columns []string, rows [][]any) ([]string, [][]any) {
	if len(plan.Policies) == 0 {
		return columns, rows
	}
	at := slices.Index(columns, "Leaves") + 1
	for i := range rows {
		rows[i] = slices.Insert(rows[i], at, any(output.HeldBy(plan.At.Time, plan.Pods[i].Answer)))
	}
	return slices.Insert(slices.Clone(columns), at, "Held by"), rows
}

func podRow(plan *cliv1alpha1.TaintPlan, pod *cliv1alpha1.PlannedPod) []any {
	leaves, at, before := "stays", "", ""
	if pod.Leaves {
		leaves, at = output.Relative(plan.At.Time, pod.Due.Time), output.Absolute(pod.Due.Time)
	}
	if pod.About {
		leaves = output.About(plan.At.Time, pod.Due.Time)
	}
	if pod.DueBefore != nil {
		before = output.Absolute(pod.DueBefore.Time)
	}
	owner := ""
	if pod.Owner != nil {
		owner = pod.Owner.Kind + "/" + pod.Owner.Name
	}
	return []any{
		pod.Namespace, pod.Name, pod.Node, leaves, at,
		strings.ToLower(string(pod.Change)), pod.Taint, tolerationOf(pod), owner,
		strconv.Itoa(int(pod.Priority)), strconv.FormatInt(pod.GracePeriodSeconds, 10) + "s",
		strings.Join(pod.Budgets, ","), before,
	}
}

func tolerationOf(pod *cliv1alpha1.PlannedPod) string {
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
