// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// Course is what becomes of a node in a forecast.
type Course struct {
	Node string
	// SilentAt is when its conditions become Unknown; zero: it is not silent, or they are Unknown already.
	SilentAt time.Time
	// Conditions are those that become Unknown then.
	Conditions []corev1.NodeCondition
	// Steps are its taints, from each instant on at which they change.
	Steps []Step
	// Held says why it waits for a NoExecute taint in vain; nil: it does not.
	Held *Held
}

// Step is the taints of a node from an instant on.
type Step struct {
	At     time.Time
	Taints []corev1.Taint
}

// Forecast returns what becomes of all nodes, by name, if some of them give no sign of life from an instant on while
// the others go on as they are. Facts.Plan decides about each node and Zones about each turn, as in node health, by a
// clock that jumps from one instant at which something happens to the next. Of nodes that could have the same turn, the
// first by name has it. Signs are when nodes gave their last signs of life. A node without one gives it now.
func Forecast(
	nodes []*corev1.Node, silent []string, signs map[string]time.Time, grace Grace, policy Policy, at time.Time,
) []Course {
	at = at.Round(0).UTC() // instants are keys
	f := &forecast{
		zones: NewZones(policy), played: map[string]*played{},
		falls: map[time.Time][]string{}, looks: map[time.Time][]string{},
	}
	for _, node := range nodes {
		p := &played{node: node, member: Member{Name: node.Name}, course: Course{Node: node.Name}}
		f.played[node.Name] = p
		f.zones.Put(&p.member, node, Heard, at)
	}
	seen := verdict.SeenAt(at).Sight
	for _, name := range silent {
		if p := f.played[name]; p != nil {
			sign, known := signs[name]
			if !known {
				sign = FirstSign(p.node, seen)
			} else if sign.After(at) {
				sign = at
			}
			over := sign.Add(grace.Of(Condition(p.node, corev1.NodeReady) != nil)).Round(0).UTC()
			if over.Before(at) {
				over = at
			}
			f.falls[over] = append(f.falls[over], name)
		}
	}
	f.zones.Begin(nodes, f.standings, seen)
	f.looks[at] = slices.Collect(maps.Keys(f.played))
	for f.next() {
	}
	return f.all()
}

// forecast is one under way.
type forecast struct {
	zones  *Zones
	played map[string]*played
	falls  map[time.Time][]string // whose grace periods are over when
	looks  map[time.Time][]string // whose plan can be another when
}

// played is a node in a forecast.
type played struct {
	node   *corev1.Node // as it is at the instant at which the forecast is
	member Member
	is     Standing
	course Course
}

// standings says how all nodes stand.
func (f *forecast) standings(yield func(*Member, Standing) bool) {
	for _, p := range f.played {
		if !yield(&p.member, p.is) {
			return
		}
	}
}

// woken returns whose plan can be another after news.
func (f *forecast) woken(told News) []string {
	if told.All {
		return slices.AppendSeq(told.Wake, maps.Keys(f.played))
	}
	return told.Wake
}

// next goes to the next instant at which something happens. It reports whether there was one.
func (f *forecast) next() bool {
	var now time.Time
	for _, instants := range []map[time.Time][]string{f.falls, f.looks} {
		for at := range instants {
			if now.IsZero() || at.Before(now) {
				now = at
			}
		}
	}
	if now.IsZero() {
		return false
	}
	names := f.looks[now]
	for _, name := range f.falls[now] {
		f.played[name].is = Silent
	}
	if len(f.falls[now]) > 0 { // all of them, before the first is looked at
		names = append(names, f.woken(f.zones.Count(f.standings, now))...)
	}
	delete(f.falls, now)
	delete(f.looks, now)
	for slices.Sort(names); len(names) > 0; {
		woken := f.look(names[0], now)
		slices.Sort(woken)
		names = append(names[1:], woken...)
	}
	return true
}

// look makes a node what its plan says, and returns whose plan can be another then.
func (f *forecast) look(name string, now time.Time) (wake []string) {
	p := f.played[name]
	plan, turn := f.plan(p, now)
	if len(plan.Conditions) > 0 {
		p.course.SilentAt, p.course.Conditions = now, plan.Conditions
		p.node = WithConditions(p.node, plan.Conditions)
		wake = f.woken(f.zones.Put(&p.member, p.node, Silent, now))
		plan, turn = f.plan(p, now)
	}
	p.course.Held = turn.Held
	if turn.Wait > 0 {
		again := now.Add(turn.Wait)
		f.looks[again] = append(f.looks[again], name)
	}
	if plan.Retaints {
		p.node = p.node.DeepCopy()
		p.node.Spec.Taints = plan.Taints
		p.course.Steps = append(p.course.Steps, Step{At: now, Taints: plan.Taints})
	}
	return append(wake, turn.Next...)
}

func (f *forecast) plan(p *played, now time.Time) (Plan, Turn) {
	return f.zones.Plan(&p.member, Facts{Node: p.node, Standing: p.is, Fresh: true, Now: now}, now)
}

// all returns the courses, by name. Why nodes are held back is said as it is in the end.
func (f *forecast) all() []Course {
	courses := make([]Course, 0, len(f.played))
	for _, p := range f.played {
		if p.course.Held != nil {
			held := f.zones.held(&p.member)
			p.course.Held = &held
		}
		courses = append(courses, p.course)
	}
	slices.SortFunc(courses, func(a, b Course) int { return cmp.Compare(a.Node, b.Node) })
	return courses
}
