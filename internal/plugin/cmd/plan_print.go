// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/web"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// planned are pods of a plan, with the words of its table.
type planned struct {
	*show.Printer
	*cliv1alpha1.TaintPlan

	damage map[string]int // to workloads and PodDisruptionBudgets
}

// printPlan prints a plan for people: the answer, what needs attention, and then every pod.
func printPlan(o *show.Printer, plan *cliv1alpha1.TaintPlan) {
	var names []string
	rows := make([]*cliv1alpha1.PlannedPod, 0, len(plan.Pods))
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		if rows = append(rows, pod); pod.Leaves {
			names = append(names, show.PodName(pod.Namespace, pod.Name))
		}
	}
	switch {
	case o.Format == show.Name:
		o.Names(plan.Notes, names)
		return
	case o.NoHeaders:
		o.Notes(plan.Notes)
	default:
		o.Plan(plan)
	}
	if len(plan.Pods) == 0 {
		return
	}
	if !o.NoHeaders {
		o.Line("")
	}
	p := planned{o, plan, map[string]int{}}
	for _, workload := range plan.Workloads {
		if workload.Lowest == 0 {
			p.damage[workload.Namespace+"/"+show.OwnerOf(&workload.Owner)] = 3
		}
	}
	for _, budget := range plan.Budgets {
		if budget.Breach > 0 {
			p.damage[show.FullName(budget.Namespace, budget.Name)] = 2
		}
	}
	show.Pods(o, p.columns(), rows, p.pod)
}

// pod says which pods share a row, and which are the worst: the lost ones, then those of workloads that lose every
// replica, those of overrun PodDisruptionBudgets, and the others that leave.
func (p *planned) pod(pod *cliv1alpha1.PlannedPod) show.Pod {
	is := show.Pod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Node, Owner: pod.Owner}
	is.With = p.leaves(pod) + p.held(pod)
	if pod.WhereTo != nil && pod.WhereTo.Node == "" {
		is.With += whereTo(pod.WhereTo)
	}
	if !pod.Leaves {
		return is
	}
	is.Damage = max(1, p.damage[pod.Namespace+"/"+show.OwnerOf(pod.Owner)])
	for _, budget := range pod.Budgets {
		is.Damage = max(is.Damage, p.damage[show.FullName(pod.Namespace, budget)])
	}
	if pod.Lost {
		is.Damage = 4
	}
	return is
}

// columns returns the columns of a plan, the most important first.
func (p *planned) columns() []show.Column[*cliv1alpha1.PlannedPod] {
	type pod = cliv1alpha1.PlannedPod
	leaves := "Leaves"
	if len(p.Policies) > 0 {
		leaves = "Due"
	}
	alters := slices.ContainsFunc(p.Pods, func(pod pod) bool { // what was due anyway
		return pod.Change != cliv1alpha1.ChangeNone && pod.Change != cliv1alpha1.ChangeLeaves
	})
	return []show.Column[*pod]{
		{Title: leaves, Cell: p.leaves},
		{Title: "At", Cell: func(pod *pod) string { return p.Instant(p.At.Time, pod.Due) }},
		{Title: "Pod"},
		{Title: "Held by", Cell: p.held},
		{Title: "Where to", Cell: func(pod *pod) string { return whereTo(pod.WhereTo) }},
		{Title: "Fits", Wide: true, Cell: func(pod *pod) string { return fits(pod.WhereTo) }},
		{Title: "Node", Shared: true, Counts: "node", Cell: func(pod *pod) string { return pod.Node }},
		{Title: "Taint", Shared: true, Cell: func(pod *pod) string { return pod.Taint }},
		{Title: "Change", Wide: !alters, Cell: func(pod *pod) string { return strings.ToLower(string(pod.Change)) }},
		{Title: "Tolerated", Cell: toleratedFor},
		{Title: "Toleration", Wide: true, Cell: func(pod *pod) string {
			if pod.Toleration == nil {
				return ""
			}
			return show.Toleration(*pod.Toleration)
		}},
		{Title: "Owner", Wide: true, Cell: func(pod *pod) string { return show.OwnerOf(pod.Owner) }},
		{Title: "Priority", Wide: true, Cell: func(pod *pod) string { return strconv.Itoa(int(pod.Priority)) }},
		{Title: "Grace", Wide: true, Cell: func(pod *pod) string { return strconv.FormatInt(pod.GracePeriodSeconds, 10) + "s" }},
		{Title: "Budgets", Wide: true, Cell: func(pod *pod) string { return strings.Join(pod.Budgets, ",") }},
		{Title: "Before", Wide: true, Cell: func(pod *pod) string { return p.Instant(p.At.Time, pod.DueBefore) }},
	}
}

func (p *planned) leaves(pod *cliv1alpha1.PlannedPod) string {
	switch {
	case !pod.Leaves:
		return "stays"
	case pod.About:
		return sentence.Roughly(p.At.Time, pod.Due.Time)
	}
	return sentence.Relative(p.At.Time, pod.Due.Time)
}

func (p *planned) held(pod *cliv1alpha1.PlannedPod) string { return show.HeldBy(p.At.Time, pod.Answer) }

// toleratedFor says for how long a pod tolerates the taint that decides, or why it stays although it does not.
func toleratedFor(pod *cliv1alpha1.PlannedPod) string {
	switch {
	case pod.Reason != "" || pod.Taint == "":
		return pod.Reason
	case pod.Toleration == nil:
		return "no"
	}
	return show.TolerationSeconds(*pod.Toleration)
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
func printPage(o *show.Printer, plan *cliv1alpha1.TaintPlan) error {
	at := sentence.Absolute(plan.At.Time)
	facts := pageFacts(show.Cluster(plan), web.Fact{Name: "Taints", Value: strings.Join(plan.Taints, " ")},
		web.Fact{Name: "At", Value: at})
	for _, emptied := range show.Emptied(plan) {
		facts = append(facts, web.Fact{Name: "Nodes", Value: emptied})
	}
	return web.Write(o.Env.Out, web.Page{
		Kind: web.Plan, Title: "Plan: " + strings.Join(plan.Taints, " "),
		Answer: show.Answer(plan), Losses: slices.Concat(show.Policies(plan), pageLosses(plan)), Facts: facts,
		Workloads: web.NewTable([]string{"Workload", "Leave", "Replicas", "Lowest"}, plan.Workloads, func(w cliv1alpha1.PlannedWorkload) []string {
			return []string{w.Kind + " " + show.FullName(w.Namespace, w.Name), strconv.Itoa(w.Leave), strconv.Itoa(w.Replicas), strconv.Itoa(w.Lowest)}
		}),
		Footer: "A plan says what would happen to the cluster in its state at " + at + ". It did not set any taints. -o json prints the same plan.",
		Data:   plan,
	})
}

// pageLosses counts what is lost. The tables of the page name it.
func pageLosses(plan *cliv1alpha1.TaintPlan) (lines []string) {
	local := show.Loss{Of: plan.Summary.LocalData, What: "pod", Does: "loses its local data", Do: "lose their local data"}
	for _, loss := range append(show.LossesOf(plan), local) {
		if loss.Of > 0 {
			lines = append(lines, loss.String()+".")
		}
	}
	return lines
}

// pageFacts are facts with the cluster, if there is one.
func pageFacts(cluster string, facts ...web.Fact) []web.Fact {
	if cluster == "" {
		return facts
	}
	return slices.Insert(facts, 0, web.Fact{Name: "Cluster", Value: cluster})
}
