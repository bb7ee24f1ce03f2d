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

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// How many rows and marks there are, and how many pods a mark names.
const (
	mostRows     = 60  // of nodes, and of zones
	podsPerLabel = 3   // pods in the label of a mark
	mostInOne    = 100 // pods in the details of a mark
)

// Sizes of the drawing.
const (
	axisHeight  = 46.0
	labelHeight = 26.0
	barHeight   = 16.0
	laneHeight  = 26.0
	rowGap      = 8.0
	// Marks that would be closer than this become one. A mark with a count needs more room.
	markApart  = 20.0
	countApart = 44.0
)

// timeline is the drawing: an axis of time, and a row for each object that something happens to.
type timeline struct {
	// Label describes the drawing.
	Label  string
	Ticks  []tick
	Rows   []row
	Legend []legend
	// BreakX is where the axis is broken, and empty if it is not. Break describes the break.
	BreakX, Break string
	Logarithmic   bool // after the break
	// LeftOut says what has no row.
	LeftOut       string
	Width, Height string
	// Below is where the rows end, and Bottom is where the labels of the ticks below them are.
	Below, Bottom string

	axis axis
	// when formats the time from one instant to another.
	when func(first, last time.Duration) string
	y    float64 // where the next row begins
}

type row struct {
	Kind, Name, Shown, Detail, Answer string
	Emptied                           bool
	// Top is where the row begins, and Base is where its name is.
	Top, Height, Base string
	Bars              []bar
	Marks             []mark
}

// Label says what the row shows.
func (r row) Label() string {
	parts := []string{r.Kind + " " + r.Name, r.Detail, r.Answer}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// bar is something that lasts for a time.
type bar struct {
	X, Y, Width, Height string
	Kind                kind
	// Title says what lasts, and from when to when.
	Title string
}

// mark is one or more pods in a row to which the same happens at about the same time.
type mark struct {
	X, Y, Scale, Count string
	Kind               kind
	// Title says what happens, when and to how many pods. Names lists some of them.
	Title, Names string
	// Pods are the positions of the pods in the page's list, if they are in it. All is the number of all of them.
	Pods string
	All  int
}

// legend explains a kind of mark or bar.
type legend struct {
	Kind  kind
	Count int
}

// moment is a pod on the timeline.
type moment struct {
	pod    string
	index  int // in the page's list, or -1
	kind   kind
	offset time.Duration
}

// period is something that lasts for a time.
type period struct {
	kind     kind
	from, to time.Duration
	what     string
}

// newTimeline returns a timeline without rows.
func newTimeline(label string, a axis, at time.Time, when func(first, last time.Duration) string) timeline {
	t := timeline{Label: label, Ticks: a.ticks(at), Width: number(chartWidth), axis: a, when: when, y: axisHeight}
	if a.broken() {
		t.BreakX, t.Logarithmic = number((breakLeft+breakRight)/2), a.first < a.last
		t.Break = fmt.Sprintf("The axis is broken because nothing happens between +%s and +%s.", short(a.linear), short(a.last))
		if t.Logarithmic {
			t.Break = fmt.Sprintf("The axis is linear before +%s and logarithmic after it.", short(a.linear))
		}
	}
	return t
}

// explain adds to the legend the kinds that occur.
func (t *timeline) explain(counts map[kind]int) {
	for _, shape := range shapes {
		if counts[shape.Kind] > 0 {
			t.Legend = append(t.Legend, legend{shape.Kind, counts[shape.Kind]})
		}
	}
}

// add adds a row at the bottom: its name, its bars, and a lane for each kind of mark.
func (t *timeline) add(r row, moments []moment, bars ...[]period) {
	r.Shown = r.Name
	if r.Kind != "Node" {
		r.Shown = r.Kind + " " + r.Name
	}
	const longest = 80
	if letters := []rune(r.Shown); len(letters) > longest {
		r.Shown = string(letters[:longest]) + "…"
	}
	y := t.y + labelHeight
	for _, lane := range bars {
		if len(lane) == 0 {
			continue
		}
		for _, p := range lane {
			r.Bars = append(r.Bars, t.newBar(&r, p, y+barHeight/2))
		}
		y += barHeight
	}
	for _, shape := range shapes {
		lane := slices.DeleteFunc(slices.Clone(moments), func(m moment) bool { return m.kind != shape.Kind })
		if len(lane) == 0 {
			continue
		}
		r.Marks = append(r.Marks, t.marksOf(&r, lane, y+laneHeight/2-1)...)
		y += laneHeight
	}
	y += 2
	r.Top, r.Height, r.Base = number(t.y), number(y-t.y), number(t.y+18)
	t.Rows = append(t.Rows, r)
	t.y = y + rowGap
	t.Below, t.Bottom, t.Height = number(t.y), number(t.y+20), number(t.y+axisHeight-6)
}

// newBar draws a period at a given height.
func (t *timeline) newBar(r *row, p period, y float64) bar {
	const shortest = 6
	left, high := t.axis.x(p.from), p.kind.height()
	return bar{
		X: number(left), Y: number(y - high/2), Kind: p.kind,
		Width: number(max(t.axis.x(p.to)-left, shortest)), Height: number(high),
		Title: fmt.Sprintf("%s %s, %s: %s", r.Kind, r.Name, t.when(p.from, p.to), p.what),
	}
}

// marksOf combines moments of one kind into marks: moments that are too close together share a mark.
func (t *timeline) marksOf(r *row, lane []moment, y float64) []mark {
	slices.SortStableFunc(lane, func(a, b moment) int { return cmp.Compare(a.offset, b.offset) })
	var marks []mark
	for len(lane) > 0 {
		together := t.closeTo(lane)
		marks = append(marks, t.newMark(r, lane[:together], y))
		lane = lane[together:]
	}
	return marks
}

// closeTo returns how many of the sorted moments are too close to the first one to have their own marks.
func (t *timeline) closeTo(lane []moment) int {
	together, apart, first := 1, markApart, t.axis.x(lane[0].offset)
	for together < len(lane) && t.axis.x(lane[together].offset)-first < apart {
		together, apart = together+1, countApart
	}
	return together
}

func (t *timeline) newMark(r *row, of []moment, y float64) mark {
	m := mark{
		X: number(t.axis.x(of[0].offset)), Y: number(y), Scale: "1", Kind: of[0].kind, All: len(of), Pods: placesOf(of),
	}
	if len(of) > 1 {
		m.Count = compact(len(of))
		m.Scale = number(1.1 + min(math.Log10(float64(len(of)))*0.1, 0.4))
	}
	when := t.when(of[0].offset, of[len(of)-1].offset)
	m.Title = fmt.Sprintf("%s %s, %s: %s %s", r.Kind, r.Name, when, sentence.Counted(len(of), "pod"), m.Kind.verb(len(of)))
	m.Names = named(of)
	return m
}

// human formats a span as in tables.
func human(span time.Duration) string { return duration.HumanDuration(max(span, time.Second)) }

// named lists some pods, and counts the rest.
func named(of []moment) string {
	names := make([]string, 0, podsPerLabel)
	for _, m := range of[:min(len(of), podsPerLabel)] {
		names = append(names, m.pod)
	}
	text := strings.Join(names, ", ")
	if len(of) > podsPerLabel {
		text += fmt.Sprintf(" and %d more", len(of)-podsPerLabel)
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

// compact formats a count so that it fits next to a mark.
func compact(n int) string {
	switch {
	case n < 1000:
		return strconv.Itoa(n)
	case n < 9950:
		return strconv.FormatFloat(math.Round(float64(n)/100)/10, 'f', -1, 64) + "k"
	}
	return strconv.Itoa((n+500)/1000) + "k"
}

// zone is the nodes of one zone.
type zone[N any] struct {
	name  string
	nodes []N
}

// zonesOf returns the zones by name. The nodes without a zone come last.
func zonesOf[N any](nodes []N, zoneOf func(N) string) []zone[N] {
	byName := map[string][]N{}
	for _, node := range nodes {
		byName[zoneOf(node)] = append(byName[zoneOf(node)], node)
	}
	zones := make([]zone[N], 0, len(byName))
	for name, in := range byName {
		zones = append(zones, zone[N]{name, in})
	}
	slices.SortFunc(zones, func(a, b zone[N]) int {
		return cmp.Or(-cmp.Compare(min(len(a.name), 1), min(len(b.name), 1)), cmp.Compare(a.name, b.name))
	})
	if len(zones) > mostRows { // the labels are not really zones, so all nodes share one row
		return []zone[N]{{fmt.Sprintf("any of %d", len(zones)), nodes}}
	}
	return zones
}

// row returns the row of the zone.
func (z zone[N]) row(answer string) row {
	return row{
		Kind: "Zone", Name: cmp.Or(z.name, "unknown"), Detail: sentence.Counted(len(z.nodes), "node"), Answer: answer,
	}
}
