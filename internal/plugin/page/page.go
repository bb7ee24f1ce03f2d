// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page writes a plan or a simulation as one HTML page: the answer, a timeline, and tables. The page is
// self-contained, and its Content-Security-Policy forbids all requests. It works without JavaScript, but is then
// static.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// How much of a plan the page lists. Browsers cannot open arbitrarily large pages.
const (
	mostPods   = 2000
	mostListed = 300 // nodes, workloads, budgets, notes
	mostLosses = 12
)

var (
	//go:embed *.html
	markup embed.FS
	// BaseStyle is common to all pages: colors in light and dark, text, tables, figures, the filter.
	//go:embed base.css
	BaseStyle string
	//go:embed page.css
	ownStyle string
	//go:embed page.js
	script string

	style = BaseStyle + ownStyle

	parsed = template.Must(template.New("").Funcs(template.FuncMap{
		"length":  length,
		"instant": func(at metav1.MicroTime) string { return at.UTC().Format(time.RFC3339) },
	}).ParseFS(markup, "*.html"))
)

// Page is a plan and the texts about it.
type Page struct {
	Plan *cliv1alpha1.TaintPlan
	// Cluster names the cluster of the plan. It is empty for files.
	Cluster string
	// Answer is the plan in one sentence. Losses are sentences about what is lost in addition to pods.
	Answer string
	Losses []string
	// Words returns the texts about a pod. It is called for the pods that the page lists.
	Words func(*cliv1alpha1.PlannedPod) Words
}

// Words are the texts about a pod.
type Words struct {
	// Leaves is the time until the pod is due, At is the instant, and Before is the instant without the plan. They are
	// empty if there is none.
	Leaves, At, Before string
	// Toleration is the toleration that applies to the taint, or says that there is none.
	Toleration string
	// HeldBy says which EvictionPolicy holds the pod when it is due, and why. It is empty if none does.
	HeldBy string
}

// Write writes the page of a plan.
func Write(out io.Writer, page Page) error {
	return write(out, "plan.html", newView(page))
}

func write(out io.Writer, name string, view any) error {
	if err := parsed.ExecuteTemplate(out, name, view); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// head is common to the pages of plans and simulations.
type head struct {
	// Kind is the kind of page, and Title is its subject.
	Kind, Title     string
	Policy, Made    string
	Style           template.CSS
	Shapes          []shape
	Cluster, Answer string
	// Losses are sentences about what is lost, and MoreLosses is the number of further ones.
	Losses     []string
	MoreLosses int
	Figures    []figure
	Timeline   timeline
}

// complete sets the remaining fields. The page may run the given script, or none if it is empty.
func (h *head) complete(at time.Time, script string) {
	h.Policy, h.Made = policy(script), at.UTC().Format(time.RFC3339)
	h.Style, h.Shapes = template.CSS(style), shapes
	if len(h.Losses) > mostLosses {
		h.MoreLosses = len(h.Losses) - mostLosses
		h.Losses = h.Losses[:mostLosses]
	}
}

// view is the input of the template of plans.
type view struct {
	head

	Plan       *cliv1alpha1.TaintPlan
	Script     template.JS
	Rows       []podRow
	HasWhereTo bool
	// Listed is the part of the plan that the page lists. LeftOut says for each list what is missing.
	Listed  *cliv1alpha1.TaintPlan
	LeftOut leftOut
}

// leftOut are sentences, which are empty if nothing is missing.
type leftOut struct{ Pods, Nodes, Workloads, Budgets, Notes string }

// figure is a number of the summary.
type figure struct {
	Name, Label, Of string
	Value           any
}

// podRow is a pod of the table.
type podRow struct {
	*cliv1alpha1.PlannedPod
	Words

	Kind kind
}

func newView(page Page) view {
	plan := page.Plan
	order := listed(plan)
	v := view{Plan: plan, Script: template.JS(script), head: head{
		Kind: "Plan", Title: strings.Join(plan.Taints, " "), Cluster: page.Cluster, Answer: page.Answer, Losses: page.Losses,
		Figures: figuresOf(plan),
	}}
	v.complete(plan.At.Time, script)
	v.Listed, v.LeftOut = shorten(plan, order)
	places := make(map[int]int, len(order))
	for place, index := range order {
		pod := &plan.Pods[index]
		places[index] = place
		v.Rows = append(v.Rows, podRow{pod, page.Words(pod), kindOf(pod)})
		v.HasWhereTo = v.HasWhereTo || pod.WhereTo != nil
	}
	v.Timeline = planTimeline(plan, places)
	return v
}

// policy is the Content-Security-Policy: only the page's own style and script. The empty icon keeps browsers from
// requesting one.
func policy(script string) string {
	scripts := "'none'"
	if script != "" {
		scripts = "'" + hash(script) + "'"
	}
	return fmt.Sprintf("default-src 'none'; img-src data:; style-src '%s'; script-src %s; base-uri 'none'; form-action 'none'", hash(style), scripts)
}

func hash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// listed returns the indexes of the pods that the page lists: all of them, or, if there are many, first those that the
// plan affects.
func listed(plan *cliv1alpha1.TaintPlan) []int {
	var first, then []int
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		if len(plan.Pods) <= mostPods || pod.Leaves || pod.Change != cliv1alpha1.ChangeNone {
			first = append(first, i)
		} else {
			then = append(then, i)
		}
	}
	all := slices.Concat(first, then)
	return all[:min(len(all), mostPods)]
}

// shorten returns the part of the plan that the page lists, with a note if something is missing.
func shorten(plan *cliv1alpha1.TaintPlan, order []int) (*cliv1alpha1.TaintPlan, leftOut) {
	short := *plan
	short.Pods = make([]cliv1alpha1.PlannedPod, 0, len(order))
	for _, index := range order {
		short.Pods = append(short.Pods, plan.Pods[index])
	}
	left := leftOut{Pods: remainder(len(order), len(plan.Pods), "pods")}
	short.Nodes, left.Nodes = cut(byEmptied(plan.Nodes), "nodes")
	short.Workloads, left.Workloads = cut(plan.Workloads, "workloads")
	short.Budgets, left.Budgets = cut(plan.Budgets, "PodDisruptionBudgets")
	short.Notes, left.Notes = cut(plan.Notes, "notes")
	short.Notes = slices.Clone(short.Notes)
	for _, sentence := range []string{left.Pods, left.Nodes, left.Workloads, left.Budgets, left.Notes} {
		if sentence != "" {
			short.Notes = append(short.Notes, sentence)
		}
	}
	return &short, left
}

// byEmptied returns the nodes in their order, or, if there are many, those that are emptied first.
func byEmptied(nodes []cliv1alpha1.PlannedNode) []cliv1alpha1.PlannedNode {
	if len(nodes) <= mostListed {
		return nodes
	}
	emptied := slices.DeleteFunc(slices.Clone(nodes), func(node cliv1alpha1.PlannedNode) bool { return !node.Emptied })
	others := slices.DeleteFunc(slices.Clone(nodes), func(node cliv1alpha1.PlannedNode) bool { return node.Emptied })
	return slices.Concat(emptied, others)
}

func cut[T any](all []T, what string) ([]T, string) {
	most := min(len(all), mostListed)
	return all[:most], remainder(most, len(all), what)
}

func remainder(shown, all int, what string) string {
	if shown == all {
		return ""
	}
	return fmt.Sprintf("This page lists %d of %d %s; -o json lists all.", shown, all, what)
}

func figuresOf(plan *cliv1alpha1.TaintPlan) []figure {
	s := plan.Summary
	leave, last := "pods leave", figure{Name: "last", Label: "last one leaves", Value: "never"}
	if slices.ContainsFunc(plan.Pods, func(pod cliv1alpha1.PlannedPod) bool { return pod.Answer.Stays() }) {
		leave, last.Label = "pods are due", "last one is due"
	}
	if s.Last != nil {
		last.Value, last.Of = relative(s.Last.Sub(plan.At.Time)), dayOrTime(plan.At.UTC(), s.Last.UTC())
	}
	return []figure{
		{Name: "leave", Label: leave, Value: s.Leave, Of: fmt.Sprintf("of %d", s.Pods)},
		{Name: "atOnce", Label: "of them at once", Value: s.AtOnce},
		last,
		{Name: "changed", Label: "pods change", Value: s.Changed, Of: "against now"},
		{Name: "workloadsLost", Label: "workloads lose every replica", Value: s.WorkloadsLost},
		{Name: "budgetsBreached", Label: "budgets breached", Value: s.BudgetsBreached},
		{Name: "emptied", Label: "nodes emptied", Value: s.Emptied, Of: fmt.Sprintf("of %d", s.Nodes)},
	}
}

// dayOrTime formats an instant as short as possible without ambiguity.
func dayOrTime(today, instant time.Time) string {
	if instant.Format(time.DateOnly) == today.Format(time.DateOnly) {
		return "at " + instant.Format("15:04:05Z07:00")
	}
	return "on " + instant.Format(time.DateOnly)
}
