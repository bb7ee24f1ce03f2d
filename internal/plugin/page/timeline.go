// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// How much of a plan gets a row, a mark, or a name in one.
const (
	mostRows  = 60  // of nodes, and of zones
	mostNamed = 3   // pods in the label of a mark
	mostInOne = 100 // pods in the details of a mark
)

// Sizes of the drawing.
const (
	axisHeight  = 46.0
	labelHeight = 26.0
	laneHeight  = 26.0
	rowGap      = 8.0
	// Marks that would be closer become one. One with a count needs more room.
	markApart  = 20.0
	countApart = 44.0
)

// timeline is the drawing: a row for every node, or, for many nodes, a row for every zone and for those with changes.
type timeline struct {
	Ticks  []tick
	Rows   []row
	Legend []legend
	// BreakX is where the axis is broken, empty if it is not, and From says from where on it is logarithmic.
	BreakX, From string
	// LeftOut says which nodes have no row.
	LeftOut       string
	Width, Height string
	// Below and Bottom are where the rows end, and where the labels of the ticks below them are.
	Below, Bottom string
}

type row struct {
	Kind, Name, Shown, Detail, Answer string
	Emptied                           bool
	// Top is where the row begins, and Base where its name stands.
	Top, Height, Base string
	Marks             []mark
}

// Label says what the row is of.
func (r row) Label() string {
	parts := []string{r.Kind + " " + r.Name}
	if r.Detail != "" {
		parts = append(parts, r.Detail)
	}
	return strings.Join(append(parts, r.Answer), ", ")
}

// mark is one or more pods of a row to which the same happens at, or nearly at, the same instant.
type mark struct {
	X, Y, Scale, Count string
	Kind               kind
	// Title says what happens when to how many pods, and Names names some of them.
	Title, Names string
	// Pods are where the pods are in the list of the page, as far as they are in it, and All is how many there are.
	Pods string
	All  int
}

// legend explains a kind of mark.
type legend struct {
	Kind  kind
	Count int
}

// moment is a pod on the timeline.
type moment struct {
	pod    *cliv1alpha1.PlannedPod
	index  int // in the list of the page, -1 if it is not in it
	kind   kind
	offset time.Duration
	x      float64
}

// newTimeline draws a plan. The places are those of the pods in the list of the page, by their index in the plan.
func newTimeline(plan *cliv1alpha1.TaintPlan, places map[int]int) timeline {
	moments := momentsOf(plan, places)
	offsets := make([]time.Duration, 0, len(moments))
	counts := map[kind]int{}
	for _, m := range moments {
		offsets = append(offsets, m.offset)
		counts[m.kind]++
	}
	a := newAxis(offsets)
	for i := range moments {
		moments[i].x = a.x(moments[i].offset)
	}
	t := timeline{Ticks: a.ticks(plan.At.Time), Width: number(chartWidth)}
	if a.broken() {
		t.BreakX, t.From = number((breakLeft+breakRight)/2), short(a.linear)
	}
	for _, k := range kinds {
		if counts[k] > 0 {
			t.Legend = append(t.Legend, legend{k, counts[k]})
		}
	}
	t.addRows(plan, moments)
	return t
}

func momentsOf(plan *cliv1alpha1.TaintPlan, places map[int]int) []moment {
	var all []moment
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		k := kindOf(pod)
		instant := pod.Due
		if k == kindStays {
			instant = pod.DueBefore
		}
		if k == kindNone || instant == nil {
			continue
		}
		index, ok := places[i]
		if !ok {
			index = -1
		}
		all = append(all, moment{pod: pod, index: index, kind: k, offset: max(instant.Sub(plan.At.Time), 0)})
	}
	return all
}

// addRows adds the rows, one below the other.
func (t *timeline) addRows(plan *cliv1alpha1.TaintPlan, moments []moment) {
	y := axisHeight
	byNode := map[string][]moment{}
	for _, m := range moments {
		byNode[m.pod.Node] = append(byNode[m.pod.Node], m)
	}
	add := func(r row, of []moment) {
		height := r.place(y, of, plan.At.Time)
		t.Rows = append(t.Rows, r)
		y += height
	}
	nodes := plan.Nodes
	if len(nodes) > mostRows {
		for _, z := range zonesOf(plan.Nodes) {
			add(z.row(), z.moments(byNode))
		}
		nodes = t.mostChanged(plan, byNode)
	}
	for _, node := range nodes {
		add(nodeRow(node), byNode[node.Name])
	}
	t.Below, t.Bottom, t.Height = number(y), number(y+20), number(y+axisHeight-6)
}

// mostChanged returns the nodes on which something changes, those that lose most pods first, and no more than have
// room.
func (t *timeline) mostChanged(plan *cliv1alpha1.TaintPlan, byNode map[string][]moment) []cliv1alpha1.PlannedNode {
	changes := func(m moment) bool { return m.kind != kindSame }
	nodes := slices.DeleteFunc(slices.Clone(plan.Nodes), func(node cliv1alpha1.PlannedNode) bool {
		return !slices.ContainsFunc(byNode[node.Name], changes)
	})
	changed := len(nodes)
	slices.SortStableFunc(nodes, func(a, b cliv1alpha1.PlannedNode) int { return cmp.Compare(b.Leave, a.Leave) })
	nodes = nodes[:min(len(nodes), mostRows)]
	t.LeftOut = fmt.Sprintf("Of %d nodes, %d have pods for which something changes.", len(plan.Nodes), changed)
	if len(nodes) < changed {
		t.LeftOut += fmt.Sprintf(" The %d that lose most pods have a row of their own; the zones count all. With -o json the plan has every node.", len(nodes))
	}
	return nodes
}

func nodeRow(node cliv1alpha1.PlannedNode) row {
	r := row{Kind: "Node", Name: node.Name, Emptied: node.Emptied, Answer: fmt.Sprintf("%d of %s", node.Leave, leave(node.Pods))}
	if node.Zone != "" {
		r.Detail = "zone " + node.Zone
	}
	return r
}

// leave counts the pods of which some leave.
func leave(pods int) string {
	return sentence.Counted(pods, "pod") + " " + sentence.Agree(pods, "leaves", "leave")
}

// zone is the nodes of one zone.
type zone struct {
	name  string
	nodes []cliv1alpha1.PlannedNode
}

// zonesOf returns the zones by name, and the nodes without one last.
func zonesOf(nodes []cliv1alpha1.PlannedNode) []zone {
	byName := map[string][]cliv1alpha1.PlannedNode{}
	for _, node := range nodes {
		byName[node.Zone] = append(byName[node.Zone], node)
	}
	zones := make([]zone, 0, len(byName))
	for name, in := range byName {
		zones = append(zones, zone{name, in})
	}
	slices.SortFunc(zones, func(a, b zone) int {
		return cmp.Or(-cmp.Compare(min(len(a.name), 1), min(len(b.name), 1)), cmp.Compare(a.name, b.name))
	})
	if len(zones) > mostRows { // labels that are no zones: one row for all
		return []zone{{fmt.Sprintf("any of %d", len(zones)), nodes}}
	}
	return zones
}

func (z zone) row() row {
	pods, leaving := 0, 0
	for _, node := range z.nodes {
		pods, leaving = pods+node.Pods, leaving+node.Leave
	}
	r := row{Kind: "Zone", Name: z.name, Detail: sentence.Counted(len(z.nodes), "node"), Answer: fmt.Sprintf("%d of %s", leaving, leave(pods))}
	if z.name == "" {
		r.Name = "unknown"
	}
	return r
}

func (z zone) moments(byNode map[string][]moment) []moment {
	var all []moment
	for _, node := range z.nodes {
		all = append(all, byNode[node.Name]...)
	}
	return all
}

// place puts a row and its marks at a height, a lane for each kind of mark, and returns how high it is.
func (r *row) place(top float64, moments []moment, at time.Time) float64 {
	const longest = 80
	r.Shown = r.Name
	if letters := []rune(r.Name); len(letters) > longest {
		r.Shown = string(letters[:longest]) + "…"
	}
	lanes := 0
	for _, k := range kinds {
		lane := slices.DeleteFunc(slices.Clone(moments), func(m moment) bool { return m.kind != k })
		if len(lane) == 0 {
			continue
		}
		lanes++
		r.Marks = append(r.Marks, marksOf(r, lane, top+labelHeight+laneHeight*(float64(lanes)-0.5)-1, at)...)
	}
	height := labelHeight + 2 + laneHeight*float64(lanes)
	r.Top, r.Height, r.Base = number(top), number(height), number(top+18)
	return height + rowGap
}

// marksOf makes marks of moments of one kind: one for those that are too close to be told apart.
func marksOf(r *row, lane []moment, y float64, at time.Time) []mark {
	slices.SortStableFunc(lane, func(a, b moment) int { return cmp.Compare(a.offset, b.offset) })
	var marks []mark
	for len(lane) > 0 {
		together := closeTo(lane)
		marks = append(marks, newMark(r, lane[:together], y, at))
		lane = lane[together:]
	}
	return marks
}

// closeTo returns how many of the moments, which are sorted, are too close to the first for marks of their own.
func closeTo(lane []moment) int {
	together, apart := 1, markApart
	for together < len(lane) && lane[together].x-lane[0].x < apart {
		together, apart = together+1, countApart
	}
	return together
}

func newMark(r *row, of []moment, y float64, at time.Time) mark {
	m := mark{X: number(of[0].x), Y: number(y), Scale: "1", Kind: of[0].kind, All: len(of), Pods: placesOf(of)}
	if len(of) > 1 {
		m.Count = compact(len(of))
		m.Scale = number(1.1 + min(math.Log10(float64(len(of)))*0.1, 0.4))
	}
	m.Title = fmt.Sprintf("%s %s, %s: %s %s", r.Kind, r.Name, span(of, at), sentence.Counted(len(of), "pod"), m.Kind.verb(len(of)))
	m.Names = named(of)
	return m
}

// span says when the moments are, which are sorted.
func span(of []moment, at time.Time) string {
	first, last := of[0].offset, of[len(of)-1].offset
	if first == last {
		return relative(first) + " (" + at.Add(first).UTC().Format(time.RFC3339) + ")"
	}
	return fmt.Sprintf("%s to %s (%s to %s)", relative(first), human(last),
		at.Add(first).UTC().Format(time.RFC3339), at.Add(last).UTC().Format(time.RFC3339))
}

func relative(offset time.Duration) string {
	if offset <= 0 {
		return "now"
	}
	return "in " + human(offset)
}

// human writes a span as the table does.
func human(span time.Duration) string { return duration.HumanDuration(max(span, time.Second)) }

// named names some pods, and counts the rest.
func named(of []moment) string {
	names := make([]string, 0, mostNamed)
	for _, m := range of[:min(len(of), mostNamed)] {
		names = append(names, m.pod.Namespace+"/"+m.pod.Name)
	}
	text := strings.Join(names, ", ")
	if len(of) > mostNamed {
		text += fmt.Sprintf(" and %d more", len(of)-mostNamed)
	}
	return text
}

func placesOf(of []moment) string {
	var places []string
	for _, m := range of {
		if m.index >= 0 && len(places) < mostInOne {
			places = append(places, strconv.Itoa(m.index))
		}
	}
	return strings.Join(places, " ")
}

// compact writes a count so that it fits beside a mark.
func compact(n int) string {
	switch {
	case n < 1000:
		return strconv.Itoa(n)
	case n < 9950:
		return strconv.FormatFloat(math.Round(float64(n)/100)/10, 'f', -1, 64) + "k"
	}
	return strconv.Itoa((n+500)/1000) + "k"
}
